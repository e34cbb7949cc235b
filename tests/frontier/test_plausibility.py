"""Different placements with the same numbers are told; what can happen by itself is not."""

import dataclasses
from pathlib import Path

import pytest

from bench.frontier.plausibility import implausible
from bench.records import MemorySample, Records, read_records
from tests.builders import make_records

ONE, OTHER, TWO = "blocks.0", "blocks.1", "blocks.0..1:each"
REFERENCE_STUDIES = sorted((Path(__file__).parents[2] / "results" / "reference").glob("*/*/samples.jsonl"))


def with_memory(records: Records, **fields: dict[str, int]) -> Records:
    """`fields`: name of a memory sample's field → placement → value."""
    return dataclasses.replace(
        records,
        entries=tuple(
            dataclasses.replace(entry, **{name: values[entry.placement] for name, values in fields.items()})
            if isinstance(entry, MemorySample)
            else entry
            for entry in records.entries
        ),
    )


def test_placements_with_numbers_of_their_own_are_plausible() -> None:
    records = make_records(
        {"none": [100.0, 101.0], ONE: [110.0, 111.0], TWO: [120.0, 121.0]}, {"none": 900, ONE: 800, TWO: 700}
    )
    assert implausible(records) == ()


def test_the_very_same_step_times_in_the_same_rounds_are_told() -> None:
    (sentence,) = implausible(make_records({"none": [100.0, 101.0], ONE: [110.5, 111.5], TWO: [110.5, 111.5]}))
    assert sentence == (
        "implausible: blocks.0 and blocks.0..1:each have the very same step times, 2 steps of the same rounds to "
        "0.1 µs: they were not measured apart"
    )


def test_steps_of_one_sample_count_each() -> None:
    assert len(implausible(make_records({ONE: [(110.5, 111.5)], TWO: [(110.5, 111.5)]}))) == 1


@pytest.mark.parametrize(
    "times",
    [
        {ONE: [110.5, 111.5], TWO: [110.5, 120.0]},  # once, by chance
        {ONE: [110.5, 111.5], TWO: [111.5, 110.5]},  # in other rounds
        {ONE: [(110.5, 111.5)], TWO: [(110.5, 111.6)]},  # one step of a sample
    ],
)
def test_a_single_equal_step_time_is_chance(times: dict[str, list[float]]) -> None:
    assert implausible(make_records(times)) == ()


def test_equal_times_of_different_executions_are_chance() -> None:
    first, second = (make_records({text: [110.5, 111.5]}, execution=n) for n, text in enumerate((ONE, TWO)))
    assert implausible(Records(entries=first.entries + second.entries)) == ()


def test_equal_steps_of_placements_that_claim_more_units_are_told() -> None:
    records = with_memory(make_records(peaks={ONE: 800, TWO: 800}), replay_ops={ONE: 30, TWO: 30})
    (sentence,) = implausible(records)
    assert sentence == (
        "implausible: placements that claim to replay different numbers of units, 1 (blocks.0) and "
        "2 (blocks.0..1:each), took the same bytes, operations and FLOPs: some of these units were not replayed"
    )


def test_a_placement_that_took_what_none_took_is_told() -> None:
    records = with_memory(
        make_records(peaks={"none": 800, ONE: 800}),
        replay_ops={"none": 0, ONE: 0},
        replay_flops={"none": 0, ONE: 0},
    )
    assert "0 (none) and 1 (blocks.0)" in implausible(records)[0]


def test_equal_blocks_have_equal_numbers_by_right() -> None:
    assert implausible(make_records(peaks={ONE: 800, OTHER: 800})) == ()


def test_an_equal_peak_of_different_work_is_a_plateau() -> None:
    records = with_memory(make_records(peaks={ONE: 800, TWO: 800}), replay_ops={ONE: 30, TWO: 60})
    assert implausible(records) == ()


@pytest.mark.parametrize("path", REFERENCE_STUDIES, ids=lambda path: path.parent.name)
def test_the_studies_that_were_really_run_are_plausible(path: Path) -> None:
    records = read_records(path.parent)
    assert len({sample.placement for sample in records.of(MemorySample)}) > 2
    assert implausible(records) == ()
