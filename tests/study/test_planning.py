"""Plans of a study, made by the real process before anything is measured, and what becomes of them where they fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.device.lock import DIRECTORY_VARIABLE
from bench.placement import parse_placement
from bench.records import PLAN_FILE, PlanRequest, Plans, read_plans, write_plans
from bench.records.plan import MEASURED
from bench.spec import ModelSpec, StudySpec, WorkloadSpec
from bench.study import Progress, ask_plans
from bench.study.planning import Knowledge, generator_of, plan_again, plan_first, with_plans
from tests.records.test_plans import plan_of
from tests.study.test_forecasting import READS_VALUES
from tests.toy_study import EACH, toy_controls, toy_study

BREAKS = """
import os, sys
if "bench.worker.plan" in sys.orig_argv:
    os._exit(3)
"""
TWO = PlanRequest(count=2)


class Told:
    """A watch that keeps what must not be overwritten."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __call__(self, event: Progress) -> None:
        if event.message:
            self.messages.append(event.message)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudySpec, Path, Plans]:
    """Planned once; tests read the directory and leave it as it is."""
    study, directory, told = toy_study(("none", EACH)), tmp_path_factory.mktemp("planned"), Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY_VARIABLE, str(tmp_path_factory.mktemp("locks")))
        plans = plan_first(directory, study, TWO, told)
    assert told.messages == []
    return study, directory, plans


def test_plans_are_within_the_plain_peak_and_the_file_has_them(planned: tuple[StudySpec, Path, Plans]) -> None:
    study, directory, plans = planned
    assert read_plans(directory) == plans
    assert (plans.request, plans.cost_source, plans.rounds) == (TWO, MEASURED, 1)
    assert plans.plain_bytes is not None
    assert plans.floor_bytes is not None
    peaks = {row.placement: row.peak_allocated_bytes for row in plans.rows}
    assert 0 < len(peaks) <= 2
    assert min(peaks.values()) == plans.floor_bytes < plans.plain_bytes
    assert all(parse_placement(text).text == text for text in peaks), "canonical"
    entries = {entry.text: entry.generators for entry in with_plans(study, plans).placements}
    assert list(entries)[:2] == ["none", EACH], "after what the study has"
    assert set(entries) == {"none", EACH, *peaks}
    assert all(entries[row.placement][-1] == row.label for row in plans.rows)


def test_the_same_request_is_not_planned_again(
    planned: tuple[StudySpec, Path, Plans], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, directory, plans = planned
    monkeypatch.setattr("bench.study.planning.ask_process", None)  # asking would call it
    assert plan_first(directory, study, TWO, Told()) == plans


def test_another_request_is_planned_and_keeps_what_the_study_has_already(tmp_path: Path) -> None:
    study = toy_study(("none",))
    before = plan_of("blocks.0", 123)
    write_plans(tmp_path, Plans(request=TWO, rows=(before,), notes=("of another time",), rounds=2))
    plans = plan_first(tmp_path, study, PlanRequest(budgets=("90%",)), Told())
    assert plans.rows[0] == before
    assert [row.budget_bytes is not None for row in plans.rows[1:]] == [True]
    assert plans.request == PlanRequest(budgets=("90%",))
    assert (plans.rounds, plans.notes) == (1, ())


def test_a_second_round_is_planned_once_where_a_budget_is_worth_it(
    planned: tuple[StudySpec, Path, Plans], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, _, first = planned
    assert first.floor_bytes is not None
    assert first.plain_bytes is not None
    budget = (first.floor_bytes + 3 * first.plain_bytes) // 4
    assert plan_again(tmp_path, study, first, Knowledge(), Told()) == first, "no gap"
    both = plan_again(tmp_path, study, first, Knowledge(measured_shares={EACH: 0.3}, budgets=(budget,)), Told())
    assert both.rows[: len(first.rows)] == first.rows
    (new,) = both.rows[len(first.rows) :]
    assert (new.round, new.budget_bytes) == (2, budget)
    assert new.peak_allocated_bytes <= budget
    assert (both.rounds, both.request) == (2, TWO)
    assert read_plans(tmp_path) == both
    monkeypatch.setattr("bench.study.planning.ask_process", None)  # asking would call it
    assert plan_again(tmp_path, study, both, Knowledge(budgets=(budget + 1,)), Told()) == both


def test_a_budget_that_no_placement_keeps_says_which_moment_forbids_it() -> None:
    controls = toy_controls()
    plans = ask_plans(controls, PlanRequest(budgets=("1KiB", "100%"))).plans
    assert set(plans.missing) == {"1KiB"}
    assert "no placement gets under " in plans.missing["1KiB"]
    assert "the rest is needed in backward, at " in plans.missing["1KiB"]
    assert "in blocks." in plans.missing["1KiB"]
    assert [row.placement for row in plans.rows] == ["none"], "the plain step fits into all that it needs"


def test_a_model_that_fake_tensors_cannot_follow_has_a_note_and_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "my_model.py"
    file.write_text(READS_VALUES)
    model = ModelSpec(name="gate", target=str(file))
    study = toy_study(("none",), toy_controls(model=model, workload=WorkloadSpec(micro_batch=2)))
    told = Told()
    plans = plan_first(tmp_path, study, TWO, told)
    assert plans.rows == ()
    (note,) = plans.notes
    assert note.startswith("nothing is planned: fake tensors cannot follow this model: ")
    assert told.messages == [note]
    assert with_plans(study, plans) == study
    assert plan_again(tmp_path, study, plans, Knowledge(budgets=(1,)), told) == plans, "nor in a second round"


def test_a_process_that_breaks_is_told_kept_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(BREAKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    study, told = toy_study(("none",)), Told()
    plans = plan_first(tmp_path, study, TWO, told)
    assert plans.notes == ("nothing is planned: the planner ended with exit code 3:",)
    assert told.messages == list(plans.notes)
    assert plan_first(tmp_path, study, TWO, told) == plans
    assert len(told.messages) == 1


def test_a_directory_that_cannot_be_written_to_costs_the_file_alone(
    planned: tuple[StudySpec, Path, Plans], tmp_path: Path
) -> None:
    study, _, first = planned
    (tmp_path / PLAN_FILE).mkdir()
    told = Told()
    both = plan_again(tmp_path, study, first, Knowledge(budgets=(first.plain_bytes or 0,)), told)
    assert both.rounds == 2
    assert PLAN_FILE in told.messages[-1]


def test_a_peers_placement_is_labelled_as_a_peers_and_joins_what_is_the_same() -> None:
    study = toy_study(("none", EACH))
    rows = (
        plan_of(EACH, label="every-block", peer="every-block", is_installable=True),
        plan_of("blocks.0", label="rotor (1.0 MiB)", peer="rotor", is_installable=False),
        plan_of("blocks.0", label="planned (1.0 MiB)"),
        plan_of("none", label="none"),
    )
    entries = {entry.text: entry.generators for entry in with_plans(study, Plans(rows=rows)).placements}
    assert entries == {
        "none": ("explicit", "none"),
        EACH: ("explicit", "peer every-block"),
        "blocks.0": ("peer rotor (1.0 MiB)", "planned (1.0 MiB)"),
    }
    assert generator_of(dataclasses.replace(rows[0], peer=None)) == "every-block"
