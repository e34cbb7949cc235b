"""The examples that docs/custom.md shows run as they stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_model_file_is_swept_from_any_folder(tmp_path: Path) -> None:
    target = f"model.target={EXAMPLES / 'my_model.py'}"
    placements = "placements.explicit=[none,blocks.0..3:each,blocks.0..3.mlp:each]"
    options = ("protocol=quick", "workload.micro_batch=4", "+workload.shape.sequence_length=32", "device.threads=1")
    fixed = ("device=cpu", "tracker=none", "out=answer.json")
    run(tmp_path, "-m", "bench", "sweep", "model=custom", target, placements, *options, *fixed)
    trials = json.loads((tmp_path / "answer.json").read_text())["frontier"]["trials"]
    assert [trial["outcome"] for trial in trials] == ["ok"] * 3


@pytest.mark.slow
def test_the_training_script_measures_and_trains_on_with_the_knee(tmp_path: Path) -> None:
    printed = run(tmp_path, str(EXAMPLES / "my_training.py"))
    (study,) = (tmp_path / "results").iterdir()
    frontier = json.loads((study / "frontier.json").read_text())
    assert {trial["outcome"] for trial in frontier["trials"]} == {"ok"}
    losses = [float(line.removeprefix("loss ")) for line in printed.splitlines() if line.startswith("loss ")]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 3
