"""The verb `explain`, with real processes on tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from bench.frontier import build_frontier, source_digest, write_frontier
from bench.records import MemorySample, read_records
from bench.study import run_study
from bench.trace.log import read_log
from tests.toy_study import EACH, toy_study

pytestmark = pytest.mark.usefixtures("folder")

BLOCKS = "transformer.h.0..3:each"


def explain(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["explain", "device=cpu", "tracker=none", "out=answer.json", *overrides])
    return code, json.loads(Path("answer.json").read_text())


def test_a_step_that_no_study_measured_is_explained_in_a_folder_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = explain("model=gpt2-tiny", f"placement={BLOCKS}", "other=none")
    assert code == 0
    explained = answer["explanation"]
    assert sum(category["bytes"] for category in explained["categories"]) == explained["peak_bytes"]
    assert answer["advice"]
    assert answer["comparison"]["second"] == "none"
    assert {Path(picture).suffix for picture in answer["pictures"]} >= {".png", ".svg", ".html"}
    assert all(Path(picture).is_file() for picture in answer["pictures"])
    log = read_log(Path(answer["logs"][BLOCKS]))
    assert (log.placement, log.is_fake, log.peak()[0]) == (BLOCKS, False, explained["peak_bytes"])
    (step,) = (folder / "results" / "explain").iterdir()
    assert step.name.startswith("gpt2-tiny-")
    assert answer["study"] is None
    said = capsys.readouterr().out
    assert f"gpt2-tiny under {BLOCKS}" in said
    assert f"folder:  results/explain/{step.name}" in said


def test_a_step_on_tensors_without_memory_says_what_to_try_next(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = explain("model=gpt2-tiny", "real=false", "residuals=true")
    assert code == 0
    assert answer["explanation"]["is_fake"]
    assert answer["explanation"]["placement"] == "none"
    freed = [candidate["freed_bytes"] for candidate in answer["candidates"]]
    assert freed
    assert min(freed) > 0
    units = [keeps["owner"] for keeps in answer["residuals"]["keeps"]]
    assert units[:2] == ["transformer.h.0", "transformer.h.1"]
    assert "to try next" in capsys.readouterr().out


def test_with_the_study_that_measured_it_come_the_measured_extra_time_and_its_trace_folder(folder: Path) -> None:
    study = toy_study(("none", EACH))
    directory = run_study(study, folder / "results", lambda event: None)
    records = read_records(directory)
    write_frontier(directory, build_frontier(study, records), built_from=source_digest(directory))
    code, answer = explain(f"study={directory.name}", f"placement={EACH}")
    assert code == 0
    assert answer["study"] == str(directory)
    measured = answer["replay_cost"]["measured"]
    assert measured["extra_ms"] == pytest.approx(measured["placed_ms"] - measured["plain_ms"])
    peaks = {sample.placement: sample.peak_allocated_bytes for sample in records.of(MemorySample)}
    assert answer["explanation"]["peak_bytes"] == peaks[EACH]
    names = {path.name for path in (directory / "trace").iterdir()}
    assert sum(name.endswith(".json.gz") for name in names) == 2, "the placement's log and the plain step's"
    assert any(name.endswith("-fake.json.gz") for name in names)


def test_a_placement_that_does_not_exist_exits_2_and_names_close_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = explain("model=gpt2-tiny", "placement=transformer.h.0..3.mpl:each")
    assert code == 2
    assert "transformer.h.0.mlp" in answer["error"]
    assert "transformer.h.0.mlp" in capsys.readouterr().err


CHECKPOINTS_ITSELF = """
from torch import nn
from torch.utils.checkpoint import checkpoint


class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x.square().mean()


def build():
    return Careful()


def batch(model, workload):
    import torch
    return torch.ones(workload.micro_batch, 64, 8)
"""


def test_a_model_that_checkpoints_by_itself_is_told_of_it_and_takes_no_placement(folder: Path) -> None:
    (folder / "careful.py").write_text(CHECKPOINTS_ITSELF)
    code, answer = explain("model=custom", "model.target=careful.py", "model.name=careful")
    assert code == 0
    assert any(note.startswith("the plain model replays by itself: ") for note in answer["notes"])
    code, answer = explain("model=custom", "model.target=careful.py", "placement=blocks.0")
    assert code == 2
    assert answer["error"].endswith("turn its own checkpointing off")


@pytest.mark.parametrize("real", ["true", "false"])
def test_a_region_that_the_model_never_calls_is_refused(real: str) -> None:
    code, answer = explain("model=gpt2-tiny", "placement=transformer.h", f"real={real}")
    assert code == 2
    assert answer["error"] == "placement transformer.h: the model's forward never calls transformer.h"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("real=perhaps", "real: expected true or false, got 'perhaps'"),
        ("study=nowhere", "study: no study 'nowhere'"),
        ("placment=none", "placment: no such option; did you mean placement"),
    ],
)
def test_a_wrong_request_exits_2(override: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "model=gpt2-tiny", "device=cpu", "tracker=none", override]) == 2
    assert said in capsys.readouterr().err
