"""A step's memory, thinned to a timeline of a few hundred points that says how far it is off.

Points are chosen as Douglas and Peucker do (1973, doi:10.3138/FM57-6770-U75U-7727), the largest error first: the peak
and both ends are points, and then always the moment at which some edge of the stack lies farthest from the straight
line between its neighbours. So a high-water mark is left out only where no larger error was left to mend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bench.records.timeline import Timeline, TimelinePhase
from bench.step.interface import END
from bench.trace.categories import CATEGORIES
from bench.trace.log import PhaseMark

MAX_POINTS = 240
TOLERANCE_SHARE = 0.002
"""Of the peak: no more points are taken where all errors are below it."""
SMALLEST_SHARE = 1e-4
"""Of the peak: smaller blocks take no width on the axis, as in `explain`'s pictures."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class StepMemory:
    """The life of every block of one step, whether the step was run or worked out."""

    placement: str
    sizes: Sequence[int]
    """Bytes; (storages,)."""
    categories: Sequence[str]
    """One of `bench.trace.categories.CATEGORIES` each; (storages,)."""
    is_remade: Sequence[bool]
    """Whether it was made in a replay; (storages,)."""
    made_by: Sequence[tuple[str, str]]
    """Name and module of the op that made it, empty where none did; (storages,)."""
    persistent: Sequence[int]
    """Storages that are there before the step."""
    events: Sequence[int]
    """Storage s allocated: s + 1; released: -(s + 1)."""
    phases: Sequence[PhaseMark]


def compact(memory: StepMemory, max_points: int = MAX_POINTS) -> Timeline:
    """The timeline of a step.

    Args:
        max_points: at least 3.
    """
    events = np.array(memory.events, dtype=np.int64)
    storages = np.abs(events) - 1
    edges = _edges(memory, events, storages)
    totals = edges[-1]
    peak = int(totals.argmax())
    is_visible = np.array(memory.sizes, dtype=np.int64)[storages] >= SMALLEST_SHARE * totals[peak]
    is_of_op = np.array([bool(name) for name, _ in memory.made_by], dtype=bool)[storages]
    is_made = is_visible & is_of_op & (events > 0)
    is_remade = np.array(memory.is_remade, dtype=bool)[storages]
    positions, made = _counted(is_visible), _counted(is_made & ~is_remade)
    points, error = _chosen(positions, edges, peak, max_points)
    maker = abs(memory.events[peak - 1]) - 1 if peak else None
    return Timeline(
        placement=memory.placement,
        peak_bytes=int(totals[peak]),
        peak_point=points.index(peak),
        peak_op=memory.made_by[maker][0] if maker is not None else "",
        peak_module=memory.made_by[maker][1] if maker is not None else "",
        peak_in_replay=maker is not None and memory.is_remade[maker],
        largest_error_bytes=int(np.ceil(error)),
        width=int(positions[-1]),
        positions=_at(positions, points),
        made=_at(made, points),
        remade=_at(_counted(is_made & is_remade), points),
        by_category=_by_category(edges[:, points]),
        phases=_phases(memory.phases, positions, made, totals),
    )


def _edges(memory: StepMemory, events: Integers, storages: Integers) -> Integers:
    """Upper edge of each category in the stack, before any event and after each; (CATEGORIES, events + 1)."""
    sizes = np.array(memory.sizes, dtype=np.int64)
    numbers = {name: number for number, name in enumerate(CATEGORIES)}
    category = np.array([numbers[name] for name in memory.categories], dtype=np.int64)
    persistent = np.array(memory.persistent, dtype=np.int64)
    start = np.zeros(len(CATEGORIES), dtype=np.int64)
    np.add.at(start, category[persistent], sizes[persistent])
    changes = np.zeros((len(CATEGORIES), len(events) + 1), dtype=np.int64)
    changes[:, 0] = start
    changes[category[storages], np.arange(1, len(events) + 1)] = np.sign(events) * sizes[storages]
    edges: Integers = changes.cumsum(axis=1).cumsum(axis=0)
    return edges


def _counted(flags: npt.NDArray[np.bool_]) -> Integers:
    """How many of the first events have a flag; (events + 1,)."""
    return np.concatenate(([0], flags.cumsum())).astype(np.int64)


def _chosen(positions: Integers, edges: Integers, peak: int, max_points: int) -> tuple[list[int], float]:
    """States to keep, in order, and the largest error that is left, in bytes."""
    last = len(positions) - 1
    chosen = sorted({0, peak, last})
    tolerance = TOLERANCE_SHARE * edges[-1, peak]
    open_segments: list[tuple[float, int, int, int]] = []

    def look(first: int, end: int) -> None:
        if end - first > 1:
            error, at = _farthest(positions[first : end + 1], edges[:, first : end + 1])
            heappush(open_segments, (-error, first, first + at, end))

    for first, end in pairwise(chosen):
        look(first, end)
    while open_segments and -open_segments[0][0] > tolerance and len(chosen) < max_points:
        _, first, at, end = heappop(open_segments)
        chosen.append(at)
        look(first, at)
        look(at, end)
    return sorted(chosen), -open_segments[0][0] if open_segments else 0.0


def _farthest(positions: Integers, edges: Integers) -> tuple[float, int]:
    """The largest distance of an edge from the straight line between its ends, and the state where it is."""
    left, right = positions[0], positions[-1]
    # Where all lie on one vertical line, a state is right wherever it lies between its ends.
    share = (positions - left) / (right - left) if right > left else np.linspace(0.0, 1.0, len(positions))
    low, high = edges[:, :1], edges[:, -1:]
    errors = np.abs(edges - (low + (high - low) * share)).max(axis=0)
    errors[[0, -1]] = 0.0
    at = int(errors.argmax())
    return float(errors[at]), min(max(at, 1), len(positions) - 2)


def _at(values: Integers, points: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value) for value in values[points])


def _by_category(edges: Integers) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, series in zip(CATEGORIES, np.diff(edges, axis=0, prepend=0), strict=True):
        if series.any():
            is_steady = bool((series == series[0]).all())
            found[name] = tuple(int(value) for value in (series[:1] if is_steady else series))
    return found


def _phases(
    marks: Sequence[PhaseMark], positions: Integers, made: Integers, totals: Integers
) -> tuple[TimelinePhase, ...]:
    """Without the mark that the step is over, which has no width."""
    ends = [*(mark.begin for mark in marks[1:]), len(positions) - 1][: len(marks)]
    return tuple(
        TimelinePhase(
            phase=mark.phase,
            micro_batch=mark.micro_batch,
            begin=int(positions[mark.begin]),
            made=int(made[mark.begin]),
            peak_bytes=int(totals[mark.begin : end + 1].max()),
        )
        for mark, end in zip(marks, ends, strict=True)
        if mark.phase != END
    )
