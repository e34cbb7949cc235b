"""Studies of one key are joined; studies of two keys are not."""

from __future__ import annotations

import dataclasses

import pytest

from bench.frontier import build_frontier, merge_records
from bench.records import TimeSample
from bench.spec import WorkloadSpec
from tests.builders import join_records, make_controls, make_records, make_study


def test_merging_adds_placements_and_keeps_the_executions_apart() -> None:
    first = make_study(("none", "a")), make_records({"none": [100.0], "a": [110.0]}, {"none": 80, "a": 40})
    second = (
        make_study(("none", "b")),
        make_records({"none": [200.0], "b": [260.0]}, {"none": 80, "b": 30}, process="elsewhere"),
    )
    study, records = merge_records([first, second])
    assert [entry.text for entry in study.placements] == ["none", "a", "b"]
    assert {sample.execution for sample in records.of(TimeSample)} == {0, 1}
    frontier = build_frontier(study, records)
    assert [trial.time_ratio for trial in frontier.trials] == [1.0, pytest.approx(1.1), pytest.approx(1.3)]


def test_a_placement_of_both_studies_has_the_generators_of_both() -> None:
    first = make_study(("none",))
    planned = dataclasses.replace(first.placements[0], generators=("planned",))
    second = dataclasses.replace(first, placements=(planned,))
    study, _ = merge_records([(first, make_records()), (second, make_records())])
    assert study.placements[0].generators == ("none", "planned")


def test_damaged_lines_of_all_studies_are_kept() -> None:
    parts = [(make_study(), join_records(make_records(), damaged_lines=lines)) for lines in ((3,), (5, 6))]
    assert merge_records(parts)[1].damaged_lines == (3, 5, 6)


def test_two_keys_are_refused_and_what_differs_is_named() -> None:
    other = make_controls(workload=WorkloadSpec(micro_batch=8, shape={"sequence_length": 16}))
    with pytest.raises(ValueError, match=r"cannot share a frontier: workload\.micro_batch: 4 and 8$"):
        merge_records([(make_study(), make_records()), (make_study(controls=other), make_records())])


def test_two_keys_of_equal_controls_are_refused_as_well() -> None:
    with pytest.raises(ValueError, match="made by another version"):
        merge_records([(make_study(), make_records()), (make_study(key="0" * 16), make_records())])


def test_no_studies_are_refused() -> None:
    with pytest.raises(ValueError, match="no studies"):
        merge_records([])
