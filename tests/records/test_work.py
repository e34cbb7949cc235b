"""What is left to measure: rounds that were discarded, and studies whose every sample has a process of its own."""

from __future__ import annotations

import dataclasses

import pytest

from bench.records import (
    ExecutionStarted,
    Records,
    RoundDiscarded,
    Starting,
    TimeSample,
    kept_rounds,
    kept_samples,
    next_work,
)
from bench.spec import ProtocolSpec, StudySpec
from tests.builders import join_records, make_controls, make_records, make_study

TIMES = {"none": [100.0] * 3, "a": [110.0] * 3}
PEAKS = {"none": 80, "a": 40}


def study(**protocol: object) -> StudySpec:
    return make_study(("none", "a"), make_controls(protocol=ProtocolSpec(**protocol)))  # type: ignore[arg-type]


def discard(number: int) -> Records:
    return Records(
        entries=(RoundDiscarded(execution=0, process="process-0", unix_time_s=1.0, round=number, reason="too hot"),)
    )


def test_a_stopped_execution_is_done() -> None:
    assert next_work(study(), make_records(TIMES, PEAKS)) is None


def test_a_discarded_round_reopens_the_execution_for_as_many_rounds() -> None:
    records = join_records(make_records(TIMES, PEAKS), discard(1))
    work = next_work(study(), records)
    assert work is not None
    assert (work.rounds_done, work.next_round) == (2, 3)
    assert {sample.round for sample in work.samples} == {0, 2}
    assert work.weighed == {"none", "a"}


def test_what_was_measured_again_closes_it() -> None:
    again = make_records({"none": [100.0], "a": [110.0]}, first_round=3, process="process-1")
    records = join_records(make_records(TIMES, PEAKS), discard(1), again)
    assert next_work(study(), records) is None
    assert {sample.round for sample in kept_samples(records)} == {0, 2, 3}
    assert [done.round for done in kept_rounds(records)] == [0, 2, 3]
    assert len(records.of(TimeSample)) == 8  # nothing is deleted


def fresh_work(records: Records, placements: tuple[str, ...] = ("none", "a", "b")) -> tuple[str, int | None, bool]:
    controls = make_controls(protocol=ProtocolSpec(process="fresh"))
    work = next_work(make_study(placements, controls), records)
    assert work is not None
    assert work.turn is not None
    return work.turn.placement, work.turn.round, work.turn.completes_round


def without_end(times: dict[str, list[float | None]], peaks: dict[str, int], first_round: int = 0) -> Records:
    records = make_records(times, peaks, stopped=None, first_round=first_round, torn_round=first_round)
    started = dataclasses.replace(records.entries[0], placements=("none", "a", "b"))  # type: ignore[arg-type]
    return Records(entries=(started, *records.entries[1:]))


def test_a_fresh_study_weighs_none_first() -> None:
    assert fresh_work(Records(entries=())) == ("none", None, False)


def test_a_fresh_round_asks_for_each_placement_once_and_the_last_completes_it() -> None:
    records = without_end({}, {"none": 80})
    order: list[str] = []
    for left in (3, 2, 1):
        text, number, completes = fresh_work(records)
        assert (number, completes) == (0, left == 1)
        order.append(text)
        records = join_records(records, without_end({text: [100.0]}, {text: 80}))
    assert sorted(order) == ["a", "b", "none"]
    assert fresh_work(records)[1] == 1


def test_a_placement_that_failed_leaves_its_round_to_the_others() -> None:
    records = join_records(
        without_end({"none": [100.0], "a": [110.0]}, PEAKS),
        make_records(outcomes={"b": ("oom", "1 GiB")}, stopped=None),
    )
    assert fresh_work(records)[1] == 1


def test_an_extension_begins_a_round_of_its_own() -> None:
    records = make_records(TIMES, PEAKS)
    text, number, completes = fresh_work(records, ("none", "a", "new"))
    assert text in ("none", "new")
    assert (number, completes) == (3, False)


@pytest.mark.parametrize("process", ["shared", "fresh"])
def test_an_execution_that_is_done_is_done_in_either_way(process: str) -> None:
    assert next_work(study(process=process), make_records(TIMES, PEAKS)) is None


def test_a_new_reference_is_measured_beside_those_that_never_met_it() -> None:
    asked = make_study(("none", "a", "x"), reference="x")
    alone = make_records({"x": [120.0] * 3}, {"x": 20}, first_round=3, process="process-1")
    work = next_work(asked, join_records(make_records(TIMES, PEAKS), alone))
    assert work is not None
    assert work.placements == ("x", "none", "a")
    together = make_records(
        {"x": [120.0], "none": [100.0], "a": [110.0]}, {"none": 80, "a": 40}, first_round=6, process="process-2"
    )
    assert next_work(asked, join_records(make_records(TIMES, PEAKS), alone, together)) is None


def test_a_round_discarded_in_an_extension_leaves_the_earlier_end_alone() -> None:
    extension = make_records({"none": [100.0], "b": [130.0]}, {"b": 20}, first_round=3, process="process-1")
    records = join_records(make_records(TIMES, PEAKS), extension, discard(3))
    work = next_work(make_study(("none", "a", "b")), records)
    assert work is not None
    assert work.missing == {"b"}


def test_a_discard_long_after_a_round_costs_no_time() -> None:
    records = make_records(TIMES, PEAKS, stopped=None)
    late = dataclasses.replace(discard(0).entries[0], unix_time_s=1e6)
    work = next_work(study(), join_records(records, Records(entries=(late,))))
    assert work is not None
    assert work.spent_s == 0


def test_an_audit_takes_no_time_from_the_measurements() -> None:
    """The first process of this one begins at 0, audits from 2 to 90, and is killed at 93."""
    stamp = {"execution": 0, "process": "process-0"}
    entries = (
        ExecutionStarted(**stamp, unix_time_s=0.0, placements=("none", "a", "b")),
        Starting(**stamp, unix_time_s=2.0, stage="audit", placement="a"),
        Starting(**stamp, unix_time_s=50.0, stage="audit", placement="b"),
        Starting(**stamp, unix_time_s=90.0, stage="memory", placement="a"),
        Starting(**stamp, unix_time_s=93.0, stage="memory", placement="b"),
    )
    work = next_work(study(), Records(entries=entries))
    assert work is not None
    assert work.spent_s == 2 + 3
