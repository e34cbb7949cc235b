"""A timeline of few points: the peak is exact, and no moment of the step is farther off than it says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bench.records.timeline import Timeline, totals_of
from bench.trace.categories import CATEGORIES, GRADIENTS, PARAMETERS, SAVED, TEMPORARY
from bench.trace.compact import MAX_POINTS, TOLERANCE_SHARE, StepMemory, compact
from bench.trace.log import PhaseMark

KINDS = (GRADIENTS, SAVED, TEMPORARY)


def memory_of(
    sizes: Sequence[int],
    events: Sequence[int],
    *,
    categories: Sequence[str] | None = None,
    remade: Sequence[int] = (),
    persistent: Sequence[int] = (),
    phases: Sequence[PhaseMark] = (),
) -> StepMemory:
    return StepMemory(
        placement="h.0",
        sizes=sizes,
        categories=categories or [SAVED] * len(sizes),
        is_remade=[storage in remade for storage in range(len(sizes))],
        made_by=[(f"op{storage}", f"h.{storage}") for storage in range(len(sizes))],
        persistent=persistent,
        events=events,
        phases=phases,
    )


def mark(phase: str, begin: int) -> PhaseMark:
    return PhaseMark(phase=phase, micro_batch=0, begin=begin)


def random_step(seed: int, num_storages: int = 600) -> StepMemory:
    """Blocks that all can be seen, so that each event is a position of its own; parameters first, which stay."""
    draw = random.Random(seed)
    sizes = [draw.randint(50, 4000) for _ in range(num_storages)]
    categories = [PARAMETERS, *(draw.choice(KINDS) for _ in sizes[1:])]
    events: list[int] = []
    alive: list[int] = []
    for storage in range(1, num_storages):
        events.append(storage + 1)
        alive.append(storage)
        while alive and draw.random() < 0.45:
            events.append(-(alive.pop(draw.randrange(len(alive))) + 1))
    return memory_of(sizes, events, categories=categories, persistent=[0])


def edges_of(memory: StepMemory) -> list[list[int]]:
    """Upper edge of each category at every state, worked out block by block; (events + 1, CATEGORIES)."""
    now = dict.fromkeys(CATEGORIES, 0)
    for storage in memory.persistent:
        now[memory.categories[storage]] += memory.sizes[storage]
    states = []
    for event in (None, *memory.events):
        if event is not None:
            storage = abs(event) - 1
            now[memory.categories[storage]] += memory.sizes[storage] if event > 0 else -memory.sizes[storage]
        total, edges = 0, []
        for category in CATEGORIES:
            total += now[category]
            edges.append(total)
        states.append(edges)
    return states


def edges_at(timeline: Timeline, position: int) -> list[float]:
    """Upper edge of each category on the lines between the points."""
    after = next(point for point, at in enumerate(timeline.positions) if at >= position)
    before = after if timeline.positions[after] == position else after - 1
    width = timeline.positions[after] - timeline.positions[before]
    share = (position - timeline.positions[before]) / width if width else 0.0
    total, edges = 0.0, []
    for category in CATEGORIES:
        series = timeline.by_category.get(category, (0,))
        low, high = (series[point if len(series) > 1 else 0] for point in (before, after))
        total += low + share * (high - low)
        edges.append(total)
    return edges


def test_a_small_step_is_kept_whole() -> None:
    memory = memory_of(
        [1000, 200, 300, 100],
        [2, 3, -3, 4, -4, -2],
        categories=[PARAMETERS, SAVED, TEMPORARY, TEMPORARY],
        remade=[3],
        persistent=[0],
        phases=[mark("forward", 0), mark("backward", 3), mark("end", 6)],
    )
    timeline = compact(memory)
    assert timeline.positions == (0, 1, 2, 3, 4, 5, 6)
    assert totals_of(timeline) == [1000, 1200, 1500, 1200, 1300, 1200, 1000]
    assert (timeline.peak_bytes, timeline.peak_point, timeline.width) == (1500, 2, 6)
    assert timeline.by_category == {
        PARAMETERS: (1000,),
        SAVED: (0, 200, 200, 200, 200, 200, 0),
        TEMPORARY: (0, 0, 300, 0, 100, 0, 0),
    }
    assert timeline.made == (0, 1, 2, 2, 2, 2, 2)
    assert timeline.remade == (0, 0, 0, 0, 1, 1, 1)
    assert [(p.phase, p.begin, p.made, p.peak_bytes) for p in timeline.phases] == [
        ("forward", 0, 0, 1500),
        ("backward", 3, 2, 1300),
    ]
    assert (timeline.peak_op, timeline.peak_module, timeline.peak_in_replay) == ("op2", "h.2", False)
    assert timeline.largest_error_bytes == 0


def test_a_straight_rise_is_two_points_and_the_peak() -> None:
    timeline = compact(memory_of([100] * 50, [storage + 1 for storage in range(50)]))
    assert timeline.positions == (0, 50)
    assert (timeline.peak_point, timeline.peak_bytes) == (1, 5000)


def test_blocks_too_small_to_be_seen_take_no_width_and_are_counted() -> None:
    timeline = compact(memory_of([10**6, 99, 10**6], [1, 2, 3]))
    assert timeline.width == 2
    assert timeline.peak_bytes == 2 * 10**6 + 99


def test_the_first_of_equal_peaks_is_the_peak() -> None:
    timeline = compact(memory_of([100, 100], [1, -1, 2, -2]))
    assert timeline.positions[timeline.peak_point] == 1
    assert timeline.peak_op == "op0"


def test_a_step_that_allocates_nothing_is_one_point() -> None:
    timeline = compact(memory_of([500], [], persistent=[0], phases=[mark("forward", 0), mark("end", 0)]))
    assert (timeline.positions, timeline.peak_bytes, timeline.peak_op) == ((0,), 500, "")
    assert [phase.peak_bytes for phase in timeline.phases] == [500]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("max_points", [3, 20, MAX_POINTS])
def test_no_moment_is_farther_from_the_lines_than_is_said_and_the_peak_is_exact(seed: int, max_points: int) -> None:
    memory = random_step(seed)
    timeline, states = compact(memory, max_points), edges_of(memory)
    totals = [edges[-1] for edges in states]
    assert len(timeline.positions) <= max_points
    assert timeline.peak_bytes == max(totals) == totals_of(timeline)[timeline.peak_point]
    assert timeline.positions[timeline.peak_point] == totals.index(max(totals))
    errors = [
        max(abs(one - other) for one, other in zip(edges, edges_at(timeline, position), strict=True))
        for position, edges in enumerate(states)
    ]
    assert max(errors) <= timeline.largest_error_bytes
    assert max(errors) > timeline.largest_error_bytes - 1.01, "it says no more than is true"
    if len(timeline.positions) < max_points:
        assert timeline.largest_error_bytes <= TOLERANCE_SHARE * timeline.peak_bytes + 1


def test_more_points_are_never_farther_off() -> None:
    memory = random_step(1)
    errors = [compact(memory, points).largest_error_bytes for points in (5, 20, 80, 240)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]


def test_of_many_spikes_the_largest_are_kept() -> None:
    sizes = [10_000 + 100 * (storage * 37 % 97) for storage in range(97)]
    events = [event for storage in range(97) for event in (storage + 1, -(storage + 1))]
    timeline = compact(memory_of(sizes, events), max_points=60)
    kept = set(totals_of(timeline)) - {0}
    left_out = set(sizes) - kept
    assert len(kept) >= 19
    assert max(sizes) in kept
    assert timeline.largest_error_bytes >= max(left_out) - 1
