"""The second frontier: throughput against size, and what is fastest at k times the size that `none` reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.capacity.reading import speed
from bench.capacity.store import CapacityRecords
from bench.capacity.timing import Point, multiple_sizes, plain_point
from bench.capacity.types import (
    FITS,
    NOT_TRIED,
    AtMultiple,
    AtSize,
    Capacity,
    CapacitySpec,
    Expected,
    FrontierPoint,
    Probe,
    Throughput,
)
from bench.records import PLAIN

Timed = Mapping[Point, Throughput]


def throughput_frontier(timed: Timed, records: CapacityRecords) -> tuple[FrontierPoint, ...]:
    """Points that no other one beats in both size and throughput, smallest size first."""
    refuted = refuted_points(records)
    points = [
        FrontierPoint(
            placement=point.placement,
            size=point.size,
            units_per_s=throughput.units_per_s,
            relative=throughput.relative,
        )
        for point, throughput in timed.items()
        if point not in refuted
    ]
    return tuple(sorted((p for p in points if not any(_beats(o, p) for o in points)), key=lambda p: p.size))


def at_multiples(
    spec: CapacitySpec, rows: Sequence[Capacity], records: CapacityRecords, timed: Timed
) -> tuple[AtMultiple, ...]:
    return tuple(
        _at_multiple(multiple, size, rows, records, timed) for multiple, size in multiple_sizes(spec, rows).items()
    )


def refuted_points(records: CapacityRecords) -> set[Point]:
    """Where the last probe did not fit, whatever larger size does. One that was not started says nothing."""
    last = {Point(probe.placement, probe.size): probe.outcome for probe in records.of(Probe)}
    return {point for point, outcome in last.items() if outcome not in (FITS, NOT_TRIED)}


def _at_multiple(
    multiple: int, size: int | None, rows: Sequence[Capacity], records: CapacityRecords, timed: Timed
) -> AtMultiple:
    reach = [row for row in rows if size is not None and row.largest is not None and row.largest >= size]
    points = [Point(row.placement, size) for row in reach if size is not None]
    refuted = refuted_points(records)
    found = [_at_size(point, records, timed[point]) for point in points if point in timed and point not in refuted]
    found.sort(key=lambda at: -speed(at.throughput))
    return AtMultiple(
        multiple=multiple,
        size=size,
        rows=tuple(found),
        best=found[0].placement if found else None,
        reason="" if found else _why_not(multiple, size, rows),
    )


def _at_size(point: Point, records: CapacityRecords, throughput: Throughput) -> AtSize:
    probe = next((p for p in records.of(Probe) if Point(p.placement, p.size) == point and p.outcome == FITS), None)
    expected = next((e for e in records.of(Expected) if Point(e.placement, e.size) == point), None)
    forecast = None if expected is None else expected.peak_allocated_bytes
    return AtSize(
        placement=point.placement,
        size=point.size,
        peak_allocated_bytes=forecast if probe is None else probe.peak_allocated_bytes,
        is_proven=probe is not None,
        throughput=throughput,
    )


def _why_not(multiple: int, size: int | None, rows: Sequence[Capacity]) -> str:
    plain = plain_point(rows)
    if plain is None:
        return "`none` fits at no size, so there is nothing to be a multiple of"
    far = max((row for row in rows if row.largest is not None), key=lambda row: row.largest or 0)
    most = far.largest or 0
    if size is None:
        return f"{multiple} × {plain.size} is no size of the search; the most is {most}, by {far.placement}"
    if far.placement == PLAIN:
        return f"no placement reaches more than `none`, {most}"
    if most >= size:
        return f"nothing was timed at {size}, which {far.placement} reaches"
    return f"no placement reaches {size}: the most is {most}, {most / plain.size:.3g} times, by {far.placement}"


def _beats(other: FrontierPoint, point: FrontierPoint) -> bool:
    fast, faster = speed(point), speed(other)
    return other.size >= point.size and faster >= fast and (other.size > point.size or faster > fast)
