"""What is to be timed: placements at their largest size, and at the multiples of that of `none` which they reach."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.capacity.axis import sizes_of
from bench.capacity.store import CapacityRecords
from bench.capacity.types import Capacity, CapacitySpec, SampleFailed, TimedSample
from bench.records import PLAIN


@dataclass(frozen=True, order=True)
class Point:
    placement: str
    size: int


@dataclass(frozen=True)
class Turn:
    """A round: the points in the order in which they are timed."""

    round: int
    points: tuple[Point, ...]


def plain_point(rows: Sequence[Capacity]) -> Point | None:
    """`none` at its own largest size, which all are paired with."""
    return next((Point(r.placement, r.largest) for r in rows if r.placement == PLAIN and r.largest is not None), None)


def points_to_time(spec: CapacitySpec, rows: Sequence[Capacity]) -> tuple[Point, ...]:
    """Each once, `none` at its own largest size first."""
    plain = plain_point(rows)
    points = [plain] if plain is not None else []
    points += [Point(row.placement, row.largest) for row in rows if row.largest is not None]
    for size in multiple_sizes(spec, rows).values():
        if size is not None:
            points += [Point(row.placement, size) for row in rows if row.largest is not None and row.largest >= size]
    return tuple(dict.fromkeys(points))


def multiple_sizes(spec: CapacitySpec, rows: Sequence[Capacity]) -> dict[int, int | None]:
    """Multiple → that many times the largest size of `none`; None where that is no size of the axis."""
    plain, sizes = plain_point(rows), sizes_of(spec)
    return {
        k: k * plain.size if plain is not None and sizes.has(k * plain.size) else None for k in sorted(spec.multiples)
    }


def failed_points(records: CapacityRecords) -> set[Point]:
    return {Point(record.placement, record.size) for record in records.of(SampleFailed)}


def missing_turns(spec: CapacitySpec, points: Sequence[Point], records: CapacityRecords) -> list[Turn]:
    """Rounds that are still to be done so that each point has `spec.rounds` samples. `none` is in each of them, since
    only times of one round are compared; so are points that join later, in rounds of their own."""
    samples = records.of(TimedSample)
    failed = failed_points(records)
    taken = {point: 0 for point in points if point not in failed}
    reference = points[0] if points else None
    paired = {sample.round for sample in samples if Point(sample.placement, sample.size) == reference}
    for sample in samples:
        point = Point(sample.placement, sample.size)
        if point in taken and (sample.round in paired or reference not in taken):
            taken[point] += 1
    first = max((sample.round for sample in samples), default=-1) + 1
    turns = []
    for extra in range(max((spec.rounds - count for count in taken.values()), default=0)):
        due = [point for point, count in taken.items() if count + extra < spec.rounds]
        members = [*due] if reference in due or reference not in taken or reference is None else [reference, *due]
        turns.append(Turn(first + extra, shuffled(members, spec.controls.protocol.shuffle_seed, first + extra)))
    return turns


def shuffled(points: Sequence[Point], seed: int, number: int) -> tuple[Point, ...]:
    """The order of a round: the same in every process."""
    order = sorted(points)
    random.Random(f"{seed}:{number}").shuffle(order)
    return tuple(order)
