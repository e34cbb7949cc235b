"""The verb `forecast`, with real processes on tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from bench.cli.measured import measured_study
from bench.records import study_path
from bench.spec import to_mapping
from bench.study import run_study
from tests.study.test_forecasting import READS_VALUES
from tests.toy_study import EACH, toy_controls, toy_study

pytestmark = pytest.mark.usefixtures("folder")


def forecast(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["forecast", "device=cpu", "out=answer.json", *overrides])
    return code, json.loads(Path("answer.json").read_text())


def test_placements_are_forecast_and_the_answer_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    each = "transformer.h.0..3:each"
    code, answer = forecast("model=gpt2-tiny", f"placements.explicit=[{each}]")
    assert code == 0
    none, placed = answer["placements"]
    assert (none["placement"], placed["placement"]) == ("none", each)
    assert placed["peak_allocated_bytes"] < none["peak_allocated_bytes"]
    movable = none["peak_allocated_bytes"] - none["persistent_bytes"]
    saved = none["peak_allocated_bytes"] - placed["peak_allocated_bytes"]
    assert placed["saved_share"] == pytest.approx(saved / movable)
    assert placed["replay_flops"] > none["replay_flops"] == 0
    assert (answer["target"], answer["study"], placed["measured_peak_bytes"]) == (None, None, None)
    said = capsys.readouterr().out
    assert "gpt2-tiny on " in said
    assert "forecast, nothing was trained" in said
    assert list(Path.cwd().iterdir()) == [Path.cwd() / "answer.json"], "nothing else is left behind"


def test_a_target_need_not_be_here_and_says_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["forecast", "model=gpt2-tiny", "target=t4", "out=answer.json",
                 "placements.explicit=[none]", "target.memory_bytes=720000000"])  # fmt: skip
    answer = json.loads(Path("answer.json").read_text())
    assert code == 0
    assert answer["target"]["device_name"] == "Tesla T4"
    (none,) = answer["placements"]
    assert none["peak_reserved_bytes"] >= none["peak_allocated_bytes"]
    assert none["fits"] is (none["peak_reserved_bytes"] <= answer["target"]["allocatable_bytes"])
    assert none["roofline_ms"] > 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Tesla T4 (not here)" in said
    assert "roofline: a bound from data-sheet rates" in said


def test_a_typo_in_a_path_exits_2_and_names_close_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = forecast("model=gpt2-tiny", "placements.explicit=[transformer.h.0..3.mpl:each]")
    assert code == 2
    assert "transformer.h.0.mlp" in capsys.readouterr().err
    assert "transformer.h.0.mlp" in answer["error"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("method=guess", "method: 'guess' is not one of checked, fake, fast"),
        ("target=h300", "h200"),
        ("study=nowhere", "study: no study 'nowhere'"),
        ("+tracker=mlflow", "tracker"),
    ],
)
def test_a_wrong_request_exits_2_before_anything_is_built(
    override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", "model=gpt2-tiny", "device=cpu", override]) == 2
    assert said in capsys.readouterr().err


def test_a_model_that_fake_tensors_cannot_follow_has_reasons_and_no_number(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "gate.py").write_text(READS_VALUES)
    code, answer = forecast("model=custom", "model.target=gate.py", "model.name=gate", "placements.every=[]")
    assert code == 1
    assert {row["peak_allocated_bytes"] for row in answer["placements"]} == {None}
    assert all(row["problem"].startswith("fake tensors cannot follow this model: ") for row in answer["placements"])
    assert "fake tensors cannot follow this model" in capsys.readouterr().out


def test_what_a_study_measured_stands_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = toy_study(("none", EACH))
    directory = run_study(study, folder / "results", lambda event: None)
    code, answer = forecast(f"study={directory.name}")
    assert code == 0
    assert answer["study"] == str(directory)
    assert [row["placement"] for row in answer["placements"]] == ["none", EACH]
    for row in answer["placements"]:
        assert abs(row["peak_allocated_bytes"] - row["measured_peak_bytes"]) <= 100
        assert abs(row["error_share"]) < 0.01
    said = capsys.readouterr().out
    assert "measured" in said
    assert f"measured by the study results/{directory.name}" in said


def test_the_study_that_measured_a_step_is_found_by_its_controls(folder: Path) -> None:
    study = toy_study(("none",))
    assert measured_study(folder, study.controls) is None
    directory = study_path(folder, study)
    directory.mkdir()
    (directory / "study.json").write_text("{torn")
    assert measured_study(folder, study.controls) is None, "a damaged study is passed over"
    (directory / "study.json").write_text(json.dumps(to_mapping(study)))
    assert measured_study(folder, study.controls) == directory
    assert measured_study(folder, toy_controls(precision="bf16-autocast")) is None
