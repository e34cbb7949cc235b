"""What was timed in a capacity: a placement at a size, what a figure calls it, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from bench.capacity.reading import none_row
from bench.capacity.types import Answer, Throughput
from bench.records import PLAIN

ALL_NAMED = 24
"""Up to this many placements each has its number; of more the frontier alone."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    placement: str
    size: int
    throughput: Throughput
    is_largest: bool
    """The placement's own largest size; else it was timed there for a multiple of none's."""
    on_frontier: bool

    @property
    def is_none(self) -> bool:
        """None's own largest size: what all others are relative to."""
        return self.placement == PLAIN and self.is_largest


def timed_points(answer: Answer) -> tuple[Timed, ...]:
    """Each once: placements at their own largest sizes, then at multiples of none's."""
    frontier = {(point.placement, point.size) for point in answer.frontier}
    found = {
        (row.placement, row.largest): (row.throughput, True)
        for row in answer.rows
        if row.largest is not None and row.throughput is not None
    }
    for at in answer.at_multiples:
        for other in at.rows:
            found.setdefault((other.placement, other.size), (other.throughput, False))
    return tuple(
        Timed(
            placement=placement,
            size=size,
            throughput=throughput,
            is_largest=is_largest,
            on_frontier=(placement, size) in frontier,
        )
        for (placement, size), (throughput, is_largest) in found.items()
    )


def tags_of(answer: Answer) -> dict[Timed, str]:
    """What is named in the figure: `none`, and numbers from the smallest size on, of equal sizes the most throughput
    first. Placements at their own largest sizes, where they are few, and the frontier."""
    points = timed_points(answer)
    are_few = sum(point.is_largest for point in points) <= ALL_NAMED
    named = [point for point in points if point.on_frontier or point.is_none or (are_few and point.is_largest)]
    named.sort(key=lambda point: (point.size, -rates(answer, point)[0]))
    numbered = [point for point in named if not point.is_none]
    numbers = {point: str(number) for number, point in enumerate(numbered, start=1)}
    return {point: numbers.get(point, PLAIN) for point in named}


def rates(answer: Answer, point: Timed) -> tuple[float, float, float]:
    """Units a second with the ends of its interval: the throughput of `none` times the paired ratio, so that all points
    share one state of the machine; its own where it was paired with nothing."""
    none, throughput = none_row(answer), point.throughput
    if none is not None and none.throughput is not None and throughput.relative is not None:
        scale = none.throughput.units_per_s
        low, high = throughput.relative_interval or (throughput.relative, throughput.relative)
        return scale * throughput.relative, scale * low, scale * high
    rate = throughput.units_per_s
    low, high = throughput.units_per_s_interval or (rate, rate)
    return rate, low, high
