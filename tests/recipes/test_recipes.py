"""The recipes of docs/apply.md, as they stand there: two steps with a placement equal two plain steps to the bit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import Placement

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "apply.md").read_text(encoding="utf-8")
RECIPES: dict[str, str] = dict(re.findall(r"^### ([^\n]+)\n(?:(?!^###).)*?```python\n(.*?)```", PAGE, re.M | re.S))
NEEDS = {"transformers' Trainer": "accelerate", "Lightning": "lightning", "accelerate": "accelerate"}


def trained(folder: Path, recipe: str, placement: str) -> dict[str, Any]:
    Placement.parse(placement).save(folder / "placement.json")
    script, result = folder / "script.py", folder / "result.pt"
    script.write_text(RECIPES[recipe], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("trained.py")), str(script), str(result)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = torch.load(result)
    return loaded


def test_every_loop_that_the_page_promises_is_there() -> None:
    assert list(RECIPES) == ["A plain loop", "transformers' Trainer", "Lightning", "accelerate", "fully_shard"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_two_steps_equal_the_plain_ones_to_the_bit(recipe: str, tmp_path: Path) -> None:
    if recipe in NEEDS:
        pytest.importorskip(NEEDS[recipe])
    plain = trained(tmp_path, recipe, "none")
    placed = trained(tmp_path, recipe, "transformer.h.0..2:each")
    assert placed["replays"] == [2, 2, 2]  # three blocks, each once in each of two steps
    assert plain["replays"] == []
    assert len(plain["losses"]) == 2
    assert plain["losses"][0] != plain["losses"][1]
    assert placed["losses"] == plain["losses"]
    assert placed["weights"].keys() == plain["weights"].keys()
    differing = [name for name, value in plain["weights"].items() if not torch.equal(value, placed["weights"][name])]
    assert differing == []
