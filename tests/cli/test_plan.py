"""The verb `plan`, and a sweep of planned placements, with real processes on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from bench.records import SAMPLES_FILE, read_plans, read_records, study_path
from bench.records.plan import MEASURED, ROOFLINE
from bench.study import run_study
from tests.study.test_forecasting import READS_VALUES
from tests.toy_study import EACH, toy_study

pytestmark = pytest.mark.usefixtures("folder")

BRIEF = ("protocol.rounds_min=2", "protocol.rounds_max=2", "protocol.warmup_steps_max=1", "tracker=none")


def plan(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["plan", "out=answer.json", *overrides])
    return code, json.loads(Path("answer.json").read_text())


def test_every_budget_has_the_placement_to_copy_or_the_moment_that_forbids_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, answer = plan("model=gpt2-tiny", "device=cpu", "budget=[60%,3MiB]")
    assert code == 1, "one of them has no placement"
    placement, nothing = answer["budgets"]["60%"], answer["budgets"]["3MiB"]
    assert nothing is None
    (row,) = answer["plans"]["rows"]
    plans = answer["plans"]
    movable = plans["plain_bytes"] - plans["persistent_bytes"]
    assert row["placement"] == placement
    assert row["peak_allocated_bytes"] <= row["budget_bytes"] == plans["persistent_bytes"] + round(0.6 * movable)
    assert 0 < row["bound_ms"] <= row["replay_ms"]
    assert (plans["cost_source"], answer["target"], answer["study"]) == (MEASURED, None, None)
    said = capsys.readouterr().out
    assert placement in said.splitlines(), "alone on its line"
    assert " of what can move is freed" in said
    assert "within 3MiB:\nno placement gets under " in said
    forbidden = next(line for line in said.splitlines() if line.startswith("no placement gets under"))
    assert "the rest is needed in backward, at " in forbidden
    assert "transformer.h." in forbidden
    assert "each op of the plain step was timed on this device" in said
    assert {path.name for path in Path.cwd().iterdir()} == {"answer.json", "locks"}, "nothing else is left behind"


def test_a_target_need_not_be_here_and_a_frontier_is_numbered(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = plan("model=gpt2-tiny", "target=h200", "count=2")
    assert code == 0
    assert answer["target"]["device_name"] == "NVIDIA H200"
    plans = answer["plans"]
    assert plans["cost_source"] == ROOFLINE
    assert 0 < len(plans["rows"]) <= 2
    assert min(row["peak_allocated_bytes"] for row in plans["rows"]) == plans["floor_bytes"]
    said = capsys.readouterr().out
    assert "NVIDIA H200 (not here)" in said
    assert "never measured" in said
    for row in plans["rows"]:
        assert any(line.endswith(f": {row['placement']}") for line in said.splitlines())


def test_a_studys_times_correct_the_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = toy_study(("none", EACH))
    run_study(study, folder / "results", lambda event: None)
    code, answer = plan(f"study={study_path(Path(), study).name}", "budget=90%")
    assert code == 0
    assert answer["study"] == str(folder / "results" / study_path(Path(), study).name)
    assert "corrected by the placements that the study measured" in capsys.readouterr().out


def test_a_model_that_fake_tensors_cannot_follow_exits_1_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "gate.py").write_text(READS_VALUES)
    code, answer = plan("model=custom", "model.target=gate.py", "model.name=gate", "device=cpu", "budget=60%")
    assert code == 1
    assert answer["budgets"] == {"60%": None}
    assert "nothing is planned: fake tensors cannot follow this model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("budget=lots", "budget: 'lots' is no size; write 8GiB, 8GB or 60%"),
        ("count=0", "count: expected a whole number of at least 1, got 0"),
        ("bugdet=8GiB", "bugdet: no such option; did you mean budget"),
        ("target=h300", "h200"),
        ("study=nowhere", "study: no study 'nowhere'"),
        ("+tracker=mlflow", "tracker"),
    ],
)
def test_a_wrong_request_exits_2_before_anything_is_built(
    override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "model=gpt2-tiny", "device=cpu", override]) == 2
    assert said in capsys.readouterr().err


def test_a_peer_that_there_is_not_ends_a_sweep_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "model=gpt2-tiny", "tracker=none", "placements.peers=[rotr]"]) == 2
    assert "no peer 'rotr'; did you mean rotor" in capsys.readouterr().err
    assert not Path("results").exists()


def sweep(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["sweep", "model=gpt2-tiny", "device=cpu", "out=answer.json", *BRIEF, *overrides])
    return code, json.loads(Path("answer.json").read_text())


def test_a_planned_sweep_is_measured_in_two_rounds_and_a_rerun_plans_and_measures_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (
        "placements=[planned,peers]",
        "placements.planned=2",
        "placements.peers=[every-2]",
        "protocol.rounds_max=6",
    )
    code, answer = sweep(*asked)
    assert code == 0
    directory = Path(answer["study"])
    plans, records = read_plans(directory), read_records(directory)
    trials = {trial["placement"]: trial for trial in answer["frontier"]["trials"]}
    assert {row.placement for row in plans.rows} <= set(trials)
    assert {trial["outcome"] for trial in trials.values()} == {"ok"}
    for row in plans.rows:
        trial = trials[row.placement]
        assert abs(trial["expected_peak_bytes"] - trial["peak_allocated_bytes"]) <= 500, "allocators' small change"
        assert abs(trial["expected_peak_error_share"]) < 0.01
        assert trial["expected_replay_ms"] is not None
        assert trial["audit"] in ("valid", "valid-within-tolerance") or row.placement == "none"
    (every_2,) = (row for row in plans.rows if row.peer == "every-2")
    assert trials[every_2.placement]["generators"] == ["peer every-2"]
    assert any(row.peer is None and row.round == 1 for row in plans.rows)
    assert len(answer["frontier"]["versus"]) == 1
    said = capsys.readouterr().out
    assert "planned placements: expected beside measured" in said
    assert "plans against peers, in the same rounds" in said

    measured = (directory / SAMPLES_FILE).read_bytes()
    monkeypatch.setattr("bench.study.planning.ask_process", None)  # planning would call it
    if plans.rounds == 1:  # no gap was wide enough, and what the records say of that does not change
        assert "where the frontier leaves gaps" not in capsys.readouterr().err
    code, again = sweep(*asked)
    assert code == 0
    assert (directory / SAMPLES_FILE).read_bytes() == measured
    assert read_plans(directory) == plans
    assert again["frontier"]["trials"] == answer["frontier"]["trials"]
    assert len(records.entries) == len(read_records(directory).entries)


def test_a_sweep_whose_model_cannot_be_planned_measures_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "gate.py").write_text(READS_VALUES)
    code = main(["sweep", "model=custom", "model.target=gate.py", "model.name=gate", "device=cpu", *BRIEF,
                 "placements=[quick,planned]", "placements.kinds=[]"])  # fmt: skip
    assert code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "note: plan: nothing is planned: fake tensors cannot follow this model" in said


def test_the_verb_composes_with_the_shared_options(composed: Callable[..., dict[str, Any]]) -> None:
    options = composed(name="plan")
    assert options.items() >= {"results": "results", "out": None, "budget": None, "count": 8, "study": None}.items()
