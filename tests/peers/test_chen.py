"""Chen et al.'s laws of memory on unit chains, and their plans as placements."""

from __future__ import annotations

import math
import random

import pytest

from bench.peers.chen import (
    Segment,
    chen_greedy,
    chen_recursive,
    chen_sqrt,
    even_segments,
    greedy_plan,
    greedy_plans,
    recursive_segments,
    sqrt_segments,
)
from bench.peers.errors import OverBudgetError
from bench.peers.rotor_schedule import Keep, Rerun, Schedule, Stage, operations, peak_bytes
from bench.plan.profile import ChainProfile
from tests.peers.profiles import chain_profile, step_of, two_chain_profile, unit_profile

TAPE = 1000
"""Bytes of all that a node's backward needs, so many that what is kept besides is counted to the byte."""


def unit_chain(count: int, *, saved_bytes: int) -> tuple[Stage, ...]:
    return tuple(
        Stage(name=f"h.{i}", forward_ms=1, backward_ms=0, output_bytes=1, saved_bytes=saved_bytes) for i in range(count)
    )


def as_schedule(segments: list[Segment], first: int, end: int) -> Schedule:
    """Nested segments as the schedule that runs them: each is run through first and rebuilt in its backward."""
    inside = [segment for segment in segments if first <= segment[0] and segment[1] <= end and segment != (first, end)]
    for start, stop in sorted(inside, key=lambda segment: (segment[0], -segment[1])):
        if start == first:
            rest = [segment for segment in inside if segment[0] >= stop]
            replay = [segment for segment in inside if segment[1] <= stop and segment != (start, stop)]
            return Rerun(first, stop, as_schedule(rest, stop, end), as_schedule(replay, first, stop))
    return Keep(first, as_schedule(inside, first + 1, end) if first + 1 < end else None)


@pytest.mark.parametrize("root", [2, 3, 5, 8, 13])
def test_sqrt_segments_of_n_unit_nodes_take_two_sqrt_n(root: int) -> None:
    count = root * root
    segments = sqrt_segments(count)
    assert len(segments) == root
    schedule = as_schedule(list(segments[:-1]), 0, count)
    outputs = (
        peak_bytes(schedule, unit_chain(count, saved_bytes=1), input_bytes=1) - 1
    )  # but for the gradient in flight
    assert outputs == 2 * root
    assert sum(kind != "B" for kind, _ in operations(schedule)) == count + (count - root)  # the last is not rebuilt


def test_no_other_number_of_even_segments_takes_less_than_sqrt_n() -> None:
    stages = unit_chain(64, saved_bytes=1)

    def peak(num_segments: int) -> int:
        return peak_bytes(as_schedule(list(even_segments(64, num_segments)[:-1]), 0, 64), stages, input_bytes=1)

    peaks = {num_segments: peak(num_segments) for num_segments in (1, 2, 4, 8, 16, 32, 64)}
    assert min(peaks, key=peaks.__getitem__) == 8
    assert peaks == {k: max(k, 1) + 64 // k + 1 for k in peaks}


@pytest.mark.parametrize(("k", "power"), [(1, 1), (1, 4), (1, 7), (2, 3), (3, 3)])
def test_the_recursion_keeps_k_log_n_outputs(k: int, power: int) -> None:
    count = (k + 1) ** power
    segments = list(recursive_segments(count, k))
    peak = peak_bytes(as_schedule(segments, 0, count), unit_chain(count, saved_bytes=TAPE), input_bytes=0)
    assert peak - TAPE - 1 == k * power  # one tape and one gradient beside them: g(n) = k·log_(k+1) n


@pytest.mark.parametrize("power", range(1, 8))
def test_halving_runs_n_log_n_forwards(power: int) -> None:
    count = 2**power
    schedule = as_schedule(list(recursive_segments(count, 1)), 0, count)
    kinds = [kind for kind, _ in operations(schedule)]
    assert kinds.count("F_all") == count
    assert kinds.count("F_ck") + kinds.count("F_none") == count // 2 * power


def test_algorithm_3_closes_a_segment_once_it_exceeds_the_bound() -> None:
    sizes = [3, 1, 2, 5, 1, 1, 4]
    plan = greedy_plan(sizes, sizes, bound=5)
    # 3+1+2 > 5 closes at the third; 5+1 > 5 at the fifth; 1+4 is not above it, so the last one stays open.
    assert plan.segments == ((0, 3), (3, 5))
    assert plan.stored_bytes == 2 + 1
    assert plan.working_bytes == 6


def test_trying_every_bound_is_at_least_as_good_as_the_papers_search() -> None:
    random_numbers = random.Random(0)
    for _ in range(20):
        sizes = [random_numbers.randint(1, 50) for _ in range(30)]
        first = greedy_plan(sizes, sizes, bound=0)
        centre = math.sqrt(first.stored_bytes * first.working_bytes)
        grid = [centre * 2 ** (step / 6 - 0.5) for step in range(7)]
        searched = min(greedy_plan(sizes, sizes, bound=bound).estimated_bytes for bound in grid)
        assert min(plan.estimated_bytes for plan in greedy_plans(sizes, sizes)) <= searched


def test_every_bound_gives_one_of_the_plans() -> None:
    sizes = [4, 7, 1, 3, 3, 8, 2]
    known = {plan.segments for plan in greedy_plans(sizes, sizes)}
    for half in range(-2, 2 * sum(sizes) + 3):
        assert greedy_plan(sizes, sizes, bound=half / 2).segments in known


def test_plans_as_placements() -> None:
    nine = chain_profile(count=9)
    assert chen_sqrt(nine).text == "h.0..2+h.3..5+h.6..8"
    assert chen_recursive(chain_profile(count=4)).text == "h.0..1+h.0+h.2"
    assert chen_recursive(chain_profile(count=6), k=2).text == "h.0..1+h.0..4:every.2+h.2..3"
    two = two_chain_profile()
    assert chen_sqrt(two).text == "dec.0..1+dec.2..3+enc.0..1+enc.2..3"
    assert chen_greedy(two, None).text == "dec.0..3:each+enc.0..3:each"


def test_greedy_spends_the_budget_on_fewer_replays() -> None:
    profile = step_of(
        ChainProfile(
            name="h",
            units=tuple(
                unit_profile(f"h.{i}", "h", saved_bytes=size) for i, size in enumerate([4000, 3000, 900, 500, 400])
            ),
        )
    )
    free = profile.peak_bytes - profile.persistent_bytes
    replayed = [
        sum(len(region.units) for region in chen_greedy(profile, profile.persistent_bytes + int(free * share)).regions)
        for share in (1.1, 0.9, 0.6)
    ]
    assert replayed == sorted(replayed)
    assert replayed[0] == 0 < replayed[-1]
    with pytest.raises(OverBudgetError, match="its least plan takes"):
        chen_greedy(profile, profile.persistent_bytes + 3000)
