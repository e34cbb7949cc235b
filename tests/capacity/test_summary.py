"""Records to an answer: rows, throughput relative to `none`, multiples, the second frontier, what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.capacity.rows import search_of
from bench.capacity.search import Done, next_step
from bench.capacity.store import CapacityRecords
from bench.capacity.summary import summarise
from bench.capacity.timing import Point, missing_turns, points_to_time, shuffled
from bench.capacity.types import (
    DOES_NOT_FIT,
    FITS,
    GLOBAL_BATCH,
    NO_PROOF,
    NONE_FITS,
    NOT_TRIED,
    NOT_VALID,
    SETTLED,
    UNFINISHED,
    Answer,
    Audited,
    Capacity,
    CapacitySpec,
    Probe,
    Record,
    SampleFailed,
    TimedSample,
    TimingEnded,
)
from bench.spec import GATE, WorkloadSpec
from tests.builders import make_controls
from tests.capacity.capacities import MIB, entries_of, make_spec

BIG, BIGGER = "blocks.0", "blocks.0..1:each"
LIMIT = 100 * MIB


def spec_of(*placements: str, **changed: Any) -> CapacitySpec:
    return make_spec(placements=entries_of("none", *placements), rounds=3, **changed)


def probe(placement: str, size: int, peak: int | None, outcome: str | None = None, **fields: Any) -> Probe:
    found = outcome or (FITS if peak is not None and peak <= LIMIT else DOES_NOT_FIT)
    stamp = fields.pop("unix_time_s", 1.0)
    return Probe(
        unix_time_s=stamp,
        placement=placement,
        size=size,
        accumulation=1,
        outcome=found,
        stage="end",
        reason="" if found == FITS else f"why not {size}",
        peak_allocated_bytes=peak,
        **fields,
    )


def settled(placement: str, largest: int) -> list[Record]:
    return [probe(placement, largest, LIMIT - MIB), probe(placement, largest + 1, LIMIT + MIB)]


def samples(placement: str, size: int, ms: float, rounds: int = 3, first: int = 0) -> list[Record]:
    return [
        TimedSample(
            unix_time_s=2.0,
            process="p",
            placement=placement,
            size=size,
            accumulation=1,
            round=first + number,
            position=0,
            step_times_ms=(ms,),
            num_samples=size,
            num_units=16 * size,
            optimizer_steps=1,
            batch_digest="d",
        )
        for number in range(rounds)
    ]


def answer_of(spec: CapacitySpec, *groups: list[Record]) -> Answer:
    return summarise(spec, CapacityRecords(entries=tuple(record for group in groups for record in group)))


def row(answer: Answer, placement: str) -> Capacity:
    return next(row for row in answer.rows if row.placement == placement)


def test_a_row_says_what_was_proven_and_why_no_more() -> None:
    found = row(answer_of(spec_of(BIG, headroom=0.0), settled("none", 4), settled(BIG, 10)), BIG)
    assert (found.ended, found.largest, found.times_none) == (SETTLED, 10, 2.5)
    assert (found.peak_allocated_bytes, found.margin_bytes) == (99 * MIB, MIB)
    assert (found.next_size, found.next_outcome, found.next_peak_bytes) == (11, DOES_NOT_FIT, 101 * MIB)
    assert found.reason == "micro-batch 10 fits, 11 does not: why not 11"
    assert found.num_probes == 2


def test_what_was_not_found_out_is_unfinished_and_has_no_number() -> None:
    answer = answer_of(spec_of(BIG), settled("none", 4))
    found = row(answer, BIG)
    assert (found.ended, found.largest, found.times_none, found.peak_allocated_bytes) == (UNFINISHED, None, None, None)
    assert not answer.is_complete


def test_a_size_that_fits_is_kept_of_a_search_that_was_broken_off() -> None:
    found = row(answer_of(spec_of(BIG), settled("none", 4), [probe(BIG, 7, LIMIT)]), BIG)
    assert (found.ended, found.largest, found.margin_bytes) == (UNFINISHED, 7, 0)


def test_the_later_of_two_probes_of_a_size_holds() -> None:
    found = row(
        answer_of(spec_of(), [probe("none", 4, LIMIT + 1), probe("none", 4, LIMIT), probe("none", 5, None)]), "none"
    )
    assert (found.largest, found.ended) == (4, SETTLED)


def test_none_fits_names_the_first_true_error() -> None:
    broken = probe("none", 4, None, "error", unix_time_s=0.5)
    first = Probe(**{**vars(broken), "reason": "ValueError: the first"})
    found = row(answer_of(spec_of(start=3), [first, probe("none", 1, None), probe("none", 3, None)]), "none")
    assert (found.ended, found.largest) == (NONE_FITS, None)
    assert "ValueError: the first" in found.reason
    assert found.reason.startswith("not even micro-batch 1 fits")


def test_throughput_is_relative_to_none_at_its_own_largest_size() -> None:
    answer = answer_of(
        spec_of(BIG), settled("none", 4), settled(BIG, 8), samples("none", 4, 100.0), samples(BIG, 8, 160.0)
    )
    throughput = row(answer, BIG).throughput
    assert throughput is not None
    assert throughput.units_per_step == 128
    assert throughput.units_per_s == pytest.approx(800.0)
    assert throughput.samples_per_s == pytest.approx(50.0)
    assert throughput.relative == pytest.approx(1.25)
    assert throughput.relative_interval == pytest.approx((1.25, 1.25))
    assert throughput.verdict == "faster"
    assert answer.unit == "tokens"
    assert any("is faster than `none` because its micro-batch is larger: 8 against 4" in f for f in answer.findings)
    assert any("2 times the micro-batch of `none` (8 against 4)" in f and "125 %" in f for f in answer.findings)


def test_a_sample_whose_round_lacks_none_is_compared_with_nothing() -> None:
    answer = answer_of(
        spec_of(BIG), settled("none", 4), settled(BIG, 8), samples("none", 4, 100.0), samples(BIG, 8, 160.0, first=3)
    )
    throughput = row(answer, BIG).throughput
    assert throughput is not None
    assert (throughput.relative, throughput.verdict) == (None, "unclear")
    assert throughput.units_per_s == pytest.approx(800.0)


def test_at_a_multiple_all_that_reach_it_are_compared_at_exactly_that_size() -> None:
    spec = spec_of(BIG, BIGGER, multiples=(2, 4))
    answer = answer_of(
        spec,
        settled("none", 4),
        settled(BIG, 9),
        settled(BIGGER, 12),
        samples("none", 4, 100.0),
        samples(BIG, 8, 240.0),
        samples(BIGGER, 8, 250.0),
    )
    two, four = answer.at_multiples
    assert (two.multiple, two.size, two.best) == (2, 8, BIG)
    assert [(at.placement, at.is_proven) for at in two.rows] == [(BIG, False), (BIGGER, False)]
    assert two.rows[0].throughput.relative == pytest.approx(200 / 240)
    assert (four.size, four.best, four.rows) == (16, None, ())
    assert four.reason == f"no placement reaches 16: the most is 12, 3 times, by {BIGGER}"


def test_a_probe_that_refutes_a_multiple_takes_its_placement_out() -> None:
    records = [
        *settled("none", 4),
        *settled(BIG, 9),
        *settled(BIGGER, 9),
        *samples("none", 4, 100.0),
        *samples(BIG, 8, 240.0),
        *samples(BIGGER, 8, 250.0),
        probe(BIG, 8, LIMIT + 1),
    ]
    answer = answer_of(spec_of(BIG, BIGGER, multiples=(2,)), records)
    assert answer.at_multiples[0].best == BIGGER
    assert row(answer, BIG).holes == (8,)
    assert any("9 fits although 8 did not" in note for note in answer.notes)
    assert (BIG, 8) not in {(point.placement, point.size) for point in answer.frontier}


def test_the_second_frontier_holds_what_nothing_beats_in_size_and_throughput() -> None:
    answer = answer_of(
        spec_of(BIG, BIGGER, multiples=()),
        settled("none", 4),
        settled(BIG, 8),
        settled(BIGGER, 6),
        samples("none", 4, 100.0),  # 640 tokens a second
        samples(BIG, 8, 250.0),  # 512
        samples(BIGGER, 6, 200.0),  # 480
    )
    assert [(point.placement, point.size) for point in answer.frontier] == [("none", 4), (BIG, 8)]


def test_an_invalid_placement_is_listed_and_not_searched() -> None:
    audited = Audited(
        unix_time_s=0.0,
        placement=BIG,
        key="k",
        outcome="invalid",
        is_valid=False,
        reason="rng: masks differ",
        twin=None,
    )
    answer = answer_of(spec_of(BIG, audit=GATE), settled("none", 4), [audited], samples("none", 4, 100.0))
    found = row(answer, BIG)
    assert (found.ended, found.largest) == (NOT_VALID, None)
    assert found.reason == "its replay is invalid: rng: masks differ"
    assert answer.is_complete, "that it is invalid is an answer"


def verdict_on(placement: str, outcome: str) -> Audited:
    return Audited(unix_time_s=9.0, placement=placement, key="k", outcome=outcome, is_valid=False, reason="why")


def test_what_was_measured_before_its_verdict_came_is_on_no_frontier() -> None:
    answer = answer_of(
        spec_of(BIG, audit=GATE),
        settled("none", 4),
        settled(BIG, 8),
        samples("none", 4, 100.0),
        samples(BIG, 8, 160.0),
        [verdict_on(BIG, "invalid")],
    )
    found = row(answer, BIG)
    assert (found.ended, found.largest, found.times_none, found.throughput) == (NOT_VALID, None, None, None)
    assert [point.placement for point in answer.frontier] == ["none"]
    assert not any(multiple.rows for multiple in answer.at_multiples)
    assert answer.is_complete


def test_where_the_plain_step_fits_with_no_batch_placements_are_searched_unaudited() -> None:
    answer = answer_of(
        spec_of(BIG, audit=GATE, multiples=()),
        [probe("none", 1, None)],
        settled(BIG, 8),
        samples(BIG, 8, 160.0),
        [verdict_on(BIG, "unaudited")],
    )
    assert (row(answer, BIG).ended, row(answer, BIG).largest) == (SETTLED, 8)
    assert f"{BIG} was searched unaudited: why" in answer.notes


def test_ratios_are_not_ranked_with_tokens_a_second() -> None:
    """BIGGER's round was broken off before `none` had its turn."""
    answer = answer_of(
        spec_of(BIG, BIGGER, multiples=()),
        settled("none", 4),
        settled(BIG, 8),
        settled(BIGGER, 10),
        samples("none", 4, 100.0),
        samples(BIG, 8, 220.0),
        samples(BIGGER, 10, 400.0, rounds=1, first=3),
    )
    assert [(point.placement, point.size) for point in answer.frontier] == [("none", 4), (BIG, 8)]
    throughput = row(answer, BIGGER).throughput
    assert throughput is not None
    assert (throughput.relative, throughput.units_per_s) == (None, pytest.approx(400.0))


def test_a_multiple_that_is_reached_and_was_not_timed_is_not_said_to_be_out_of_reach() -> None:
    findings = answer_of(spec_of(BIG, multiples=(2,)), settled("none", 4), settled(BIG, 8)).findings
    assert f"2 times the micro-batch: nothing was timed at 8, which {BIG} reaches" in findings
    assert not any("not reached" in finding for finding in findings)


def test_a_point_that_failed_later_keeps_its_throughput_and_is_told_once() -> None:
    failed = SampleFailed(unix_time_s=3.0, placement=BIG, size=8, outcome="error", reason="why")
    answer = answer_of(
        spec_of(BIG, multiples=()),
        settled("none", 4),
        settled(BIG, 8),
        samples("none", 4, 100.0),
        samples(BIG, 8, 160.0),
        [failed, failed],
    )
    assert row(answer, BIG).throughput is not None
    assert sum("could not be timed" in note for note in answer.notes) == 1
    assert not any("have no throughput" in note for note in answer.notes)


def test_what_could_not_be_tried_then_can_be_tried_now() -> None:
    spec = spec_of(largest=8)
    records = CapacityRecords(entries=(probe("none", 4, LIMIT - MIB), probe("none", 5, None, NOT_TRIED)))
    then = next_step(search_of(spec, records, "none"))
    assert isinstance(then, Done)
    assert then.ended == NO_PROOF
    assert not isinstance(next_step(search_of(spec, records, "none", num_before=2)), Done)


def test_a_larger_batch_for_the_optimizer_is_declared() -> None:
    notes = answer_of(spec_of(BIG), settled("none", 6), settled(BIG, 12)).notes
    assert any("the optimizer sees 6 to 12 samples a step instead of the 4 asked for" in note for note in notes)
    assert any("without workload.micro_batch, with limit and axis" in note for note in notes)


def test_with_the_global_batch_kept_that_is_said() -> None:
    controls = make_controls(workload=WorkloadSpec(micro_batch=2, accumulation=6, shape={"sequence_length": 16}))
    spec = make_spec(controls, keep=GLOBAL_BATCH)
    notes = answer_of(spec, [probe("none", 6, LIMIT), probe("none", 12, LIMIT + 1)]).notes
    assert any("the optimizer sees 12 samples in every step, as asked" in note for note in notes)
    assert any("without workload.micro_batch and workload.accumulation" in note for note in notes)


def test_a_point_that_could_not_be_timed_makes_the_answer_partial() -> None:
    failed = SampleFailed(unix_time_s=3.0, placement=BIG, size=8, outcome="error", reason="why")
    answer = answer_of(
        spec_of(BIG, multiples=()), settled("none", 4), settled(BIG, 8), samples("none", 4, 100.0), [failed]
    )
    assert not answer.is_complete
    assert any("could not be timed at 8: error: why" in note for note in answer.notes)


def test_a_time_cap_that_was_hit_is_said() -> None:
    ended = TimingEnded(unix_time_s=3.0, rounds=1, reason="time cap")
    answer = answer_of(spec_of(), settled("none", 4), samples("none", 4, 100.0, rounds=1), [ended])
    assert any("timing ended by its time cap after 1 rounds" in note for note in answer.notes)
    assert answer.is_complete


PLAIN_POINT = Point("none", 4)


def turns(spec: CapacitySpec, *groups: list[Record]) -> list[tuple[int, set[Point]]]:
    records = CapacityRecords(entries=tuple(record for group in groups for record in group))
    points = points_to_time(spec, summarise(spec, records).rows)
    return [(turn.round, set(turn.points)) for turn in missing_turns(spec, points, records)]


def test_every_point_is_in_every_round_until_it_has_its_samples() -> None:
    spec = spec_of(BIG, multiples=(2,))
    own, at_two = Point(BIG, 9), Point(BIG, 8)
    everything = {PLAIN_POINT, own, at_two}
    sizes = [*settled("none", 4), *settled(BIG, 9)]
    assert turns(spec, sizes) == [(0, everything), (1, everything), (2, everything)]
    half = [*samples("none", 4, 1.0, 1), *samples(BIG, 9, 1.0, 1), *samples(BIG, 8, 1.0, 1)]
    assert turns(spec, sizes, half) == [(1, everything), (2, everything)]


def test_points_that_join_later_get_rounds_of_their_own_with_none_in_them() -> None:
    spec = spec_of(BIG, multiples=())
    done = [*settled("none", 4), *settled(BIG, 8), *samples("none", 4, 1.0)]
    assert turns(spec, done) == [(number, {PLAIN_POINT, Point(BIG, 8)}) for number in (3, 4, 5)]


def test_a_round_that_a_kill_tore_before_none_was_timed_counts_for_nothing() -> None:
    spec = spec_of(BIG, multiples=())
    torn = [*settled("none", 4), *settled(BIG, 8), *samples(BIG, 8, 1.0, 1)]
    assert [number for number, _ in turns(spec, torn)] == [1, 2, 3]


def test_the_order_of_a_round_is_shuffled_and_the_same_in_every_process() -> None:
    points = [Point("none", size) for size in range(20)]
    assert shuffled(points, 0, 1) == shuffled(list(reversed(points)), 0, 1)
    assert shuffled(points, 0, 1) != shuffled(points, 0, 2)
    assert sorted(shuffled(points, 0, 1)) == points
