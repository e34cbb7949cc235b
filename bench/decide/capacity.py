"""From a capacity answer to a decision: the most throughput within the limit, or the fastest that reaches a size.

Without a size it is the placement whose throughput is shown to be above none's, and `none` where none is: a larger
batch that trains no more a second is no reason to replay. With a size it is `none` where that reaches it, since replay
then brings nothing; else the one with most throughput among those that reach it, timed at that size or as near it as
anything was. Only placements that ran are answers, and only up to the largest size that they were shown to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.capacity.axis import sizes_of
from bench.capacity.reading import speed
from bench.capacity.types import Answer, Capacity
from bench.records import PLAIN
from bench.report.capacity_points import Timed, timed_points
from bench.stats.verdict import FASTER

USE, USE_NONE, TOO_LARGE, NOTHING_FITS = "use", "use none", "no placement reaches it", "nothing fits"


@dataclass(frozen=True, kw_only=True)
class Reaching:
    """A placement that may be the answer."""

    placement: str
    size: int
    """To train at: the size asked for, else the placement's best one."""
    largest: int
    was_run: bool
    """Whether `size` itself was proven; else only a larger one was."""
    timed: Timed | None
    """At `size`, or at the nearest size at which it was timed; None where it was not timed at all."""
    peak_allocated_bytes: int | None
    """At its largest size."""
    margin_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class CapacityChoice:
    kind: str
    """USE, USE_NONE, TOO_LARGE or NOTHING_FITS."""
    capacity: str
    """Directory name."""
    size: int | None
    """That was asked for; None for the most throughput."""
    chosen: Reaching | None
    runner_up: Reaching | None = None
    furthest: Reaching | None = None
    """The placement that reaches the largest size."""
    reason: str = ""
    """Where there is no answer, why."""
    notes: tuple[str, ...] = ()


def recommend_capacity(answer: Answer, capacity: str, size: int | None = None) -> CapacityChoice:
    """
    Args:
        capacity: name of the directory.
        size: along the answer's axis; None asks for the most throughput.

    Raises:
        ValueError: the search could not have tried `size`; says which sizes there are near it.
    """
    if size is not None:
        _check_size(answer, size)
    rows = [row for row in answer.rows if row.largest is not None]
    if not rows:
        why = next((row.reason for row in answer.rows if row.reason), "nothing was tried yet")
        return CapacityChoice(
            kind=NOTHING_FITS, capacity=capacity, size=size, chosen=None, reason=why, notes=answer.notes
        )
    furthest = _reaching(answer, max(rows, key=lambda row: (row.largest or 0, _rate(answer, row))), None)
    reaching = [row for row in rows if size is None or (size <= (row.largest or 0) and size not in row.holes)]
    ordered = sorted(reaching, key=lambda row: -_rate(answer, row, size))
    if size is not None and not ordered:
        return CapacityChoice(
            kind=TOO_LARGE, capacity=capacity, size=size, chosen=None, furthest=furthest, notes=answer.notes
        )
    chosen = _chosen(answer, ordered, size)
    is_none = chosen.placement == PLAIN
    # At a size that none reaches there is nothing to be second in.
    others = [] if is_none and size is not None else [row for row in ordered if row is not chosen]
    return CapacityChoice(
        kind=USE_NONE if is_none else USE,
        capacity=capacity,
        size=size,
        chosen=_reaching(answer, chosen, size),
        runner_up=_reaching(answer, others[0], size) if others else None,
        furthest=furthest,
        notes=answer.notes,
    )


def _chosen(answer: Answer, ordered: list[Capacity], size: int | None) -> Capacity:
    """`ordered`: the one with most throughput first; not empty."""
    none = next((row for row in ordered if row.placement == PLAIN), None)
    if none is None:
        return ordered[0]
    return none if size is not None else next((row for row in ordered if _is_faster(answer, row)), none)


def _is_faster(answer: Answer, row: Capacity) -> bool:
    """Whether it is shown to have more throughput than `none` at the size that it would be trained at."""
    timed = _reaching(answer, row, None).timed
    return timed is not None and timed.throughput.verdict == FASTER


def _reaching(answer: Answer, row: Capacity, size: int | None) -> Reaching:
    assert row.largest is not None
    timed = _timed(answer, row)
    best = max(timed, key=lambda at: speed(at.throughput), default=None)
    wanted = size if size is not None else best.size if best is not None else row.largest
    nearest = min(timed, key=lambda at: (abs(at.size - wanted), -at.size), default=None)
    proven = {row.largest, *_proven_at_multiples(answer, row)}
    return Reaching(
        placement=row.placement,
        size=wanted,
        largest=row.largest,
        was_run=wanted in proven,
        timed=nearest,
        peak_allocated_bytes=row.peak_allocated_bytes,
        margin_bytes=row.margin_bytes,
    )


def _timed(answer: Answer, row: Capacity) -> list[Timed]:
    """At its own largest size, and at multiples of none's; smallest first."""
    points = timed_points(answer)
    if any(at.throughput.relative is not None for at in points):
        points = tuple(at for at in points if at.throughput.relative is not None)  # what can be ranked together
    return sorted((at for at in points if at.placement == row.placement), key=lambda at: at.size)


def _proven_at_multiples(answer: Answer, row: Capacity) -> set[int]:
    return {
        other.size
        for at in answer.at_multiples
        for other in at.rows
        if other.placement == row.placement and other.is_proven
    }


def _rate(answer: Answer, row: Capacity, size: int | None = None) -> float:
    """What it is ordered by: at the nearest timed size, or at its best one without a size. The untimed come last."""
    timed = _reaching(answer, row, size).timed
    return -1.0 if timed is None else speed(timed.throughput)


def _check_size(answer: Answer, size: int) -> None:
    sizes = sizes_of(answer.spec)
    if sizes.has(size):
        return
    index = sizes.at_most(size)
    near = [sizes[i] for i in (index, index + 1) if 0 <= i < sizes.count]
    raise ValueError(
        f"{answer.spec.axis.name} of {size} was not part of the search, whose sizes are "
        f"{'divisors of the global batch' if sizes.divisors else f'multiples of {sizes.multiple}'} up to "
        f"{sizes[sizes.count - 1]}; near it: {', '.join(map(str, near)) or 'none'}"
    )
