"""What was expected of a placement, beside what was measured of it."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from bench.frontier import CSV_FILE, Frontier, Trial, build_frontier, load_frontier, merge_records, write_frontier
from bench.frontier.trials import replay_error
from bench.records import PlanRequest, Plans, Records, RecordWriter, write_plans, write_study
from bench.records.plan import COUNTED, MEASURED
from tests.builders import MIB, make_records, make_study
from tests.records.test_plans import plan_of

TIMES = {"none": [100.0] * 3, "a": [110.0] * 3, "b": [130.0] * 3}
PEAKS = {"none": 100 * MIB, "a": 60 * MIB, "b": 40 * MIB}
"""Half of a peak is persistent, as tests.builders has it."""


def plans_of(*rows: object, source: str = MEASURED, **fields: object) -> Plans:
    return Plans(request=PlanRequest(count=2), rows=rows, cost_source=source, **fields)  # type: ignore[arg-type]


def frontier_of(plans: Plans, records: Records | None = None) -> Frontier:
    records = records or make_records(TIMES, PEAKS)
    return build_frontier(make_study(("none", "a", "b")), dataclasses.replace(records, plans=plans))


def trial_of(frontier: Frontier, placement: str) -> Trial:
    return next(trial for trial in frontier.trials if trial.placement == placement)


def test_expected_peak_and_replay_time_have_their_errors() -> None:
    a = trial_of(frontier_of(plans_of(plan_of("a", 63 * MIB, replay_ms=12.0))), "a")
    assert (a.expected_peak_bytes, a.expected_peak_error_share) == (63 * MIB, 0.1)
    assert a.replay_ms == pytest.approx(10.0)
    assert a.expected_replay_ms == 12.0
    assert a.expected_replay_error_share == pytest.approx(0.2)


def test_a_replay_is_expected_at_the_speed_of_the_plain_step_as_measured() -> None:
    planned_on_a_faster_machine = dataclasses.replace(plan_of("a", 63 * MIB, replay_ms=6.0), step_ms=50.0)
    a = trial_of(frontier_of(plans_of(planned_on_a_faster_machine)), "a")
    assert a.expected_replay_ms == pytest.approx(12.0)
    assert a.expected_replay_error_share == pytest.approx(0.2)


def test_what_was_not_planned_has_nothing_expected() -> None:
    b = trial_of(frontier_of(plans_of(plan_of("a", 63 * MIB))), "b")
    assert b.replay_ms is None
    assert (b.expected_peak_bytes, b.expected_replay_ms, b.expected_replay_error_share) == (None, None, None)


def test_counted_costs_are_no_times_and_have_no_error() -> None:
    a = trial_of(frontier_of(plans_of(plan_of("a", 63 * MIB, replay_ms=12.0), source=COUNTED)), "a")
    assert a.expected_peak_bytes == 63 * MIB
    assert (a.expected_replay_ms, a.expected_replay_error_share) == (None, None)


def test_a_placement_that_did_not_fit_has_an_expected_peak_and_no_error() -> None:
    records = make_records({"none": [100.0] * 3}, {"none": 100 * MIB}, {"a": ("oom", "2 GiB")})
    a = trial_of(frontier_of(plans_of(plan_of("a", 63 * MIB)), records), "a")
    assert (a.expected_peak_bytes, a.expected_peak_error_share, a.replay_ms) == (63 * MIB, None, None)


def test_times_over_another_placement_than_none_are_held_against_no_plan() -> None:
    without = {"a": TIMES["a"], "b": TIMES["b"]}, {"a": PEAKS["a"], "b": PEAKS["b"]}
    frontier = frontier_of(plans_of(plan_of("b", 40 * MIB)), make_records(*without, {"none": ("oom", "2 GiB")}))
    b = trial_of(frontier, "b")
    assert frontier.reference == "a"
    assert (b.replay_ms, b.expected_replay_error_share) == (None, None)
    assert b.expected_replay_ms == 5.0


def test_a_replay_time_that_is_not_longer_has_no_relative_error() -> None:
    assert replay_error(5.0, 0.0) is None
    assert replay_error(5.0, -1.0) is None
    assert replay_error(None, 4.0) is None
    assert replay_error(5.0, 4.0) == 0.25


def test_a_peak_that_was_expected_elsewhere_is_a_note() -> None:
    near, far = plan_of("a", 60 * MIB), plan_of("b", 42 * MIB)
    assert not [note for note in frontier_of(plans_of(near)).notes if "expected peak" in note]
    (note,) = (note for note in frontier_of(plans_of(near, far)).notes if "expected peak" in note)
    assert note == (
        "the expected peak of 1 placement is off by more than 1 % of what could move, most that of b by +10.0 %: what "
        "was measured holds"
    )


def test_reasons_why_nothing_was_planned_are_notes_told_once_each() -> None:
    missing = {"3GiB": "too little", "autosac": "needs pulp", "ckptplan-dp": "needs ckptplan", "rotor": "needs pulp"}
    notes = frontier_of(plans_of(missing=missing, notes=("times are counted",))).notes
    assert "no placement for autosac, rotor: needs pulp" in notes
    assert "no placement for 3GiB: too little" in notes
    assert "plan: times are counted" in notes


def test_files_have_what_was_expected_and_follow_its_changes(tmp_path: Path) -> None:
    write_study(tmp_path, make_study(("none", "a", "b")))
    writer = RecordWriter(tmp_path)
    writer.append_all(make_records(TIMES, PEAKS).entries)
    writer.close()
    write_plans(tmp_path, plans_of(plan_of("a", 63 * MIB)))
    frontier = load_frontier(tmp_path)
    assert trial_of(frontier, "a").expected_peak_bytes == 63 * MIB
    write_frontier(tmp_path, frontier)
    rows = csv.DictReader((tmp_path / CSV_FILE).read_text().splitlines())
    row = next(row for row in rows if row["placement"] == "a")
    assert row["expected_peak_bytes"] == str(63 * MIB)
    write_plans(tmp_path, plans_of(plan_of("a", 61 * MIB)))
    assert trial_of(load_frontier(tmp_path), "a").expected_peak_bytes == 61 * MIB


def test_joined_studies_have_the_plans_of_both() -> None:
    study = make_study(("none", "a", "b"))
    parts = [dataclasses.replace(make_records(TIMES, PEAKS), plans=plans_of(plan_of(text))) for text in ("a", "b")]
    _, merged = merge_records([(study, records) for records in parts])
    assert set(merged.plans.expected) == {"a", "b"}
