"""From a search's records to its answer. Equal records give an equal answer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from bench.capacity.findings import findings, notes
from bench.capacity.multiples import at_multiples, throughput_frontier
from bench.capacity.rows import capacity_rows
from bench.capacity.store import CapacityRecords
from bench.capacity.throughput import comparable, throughputs
from bench.capacity.timing import Point, failed_points, plain_point, points_to_time
from bench.capacity.types import FAILED, NO_PROOF, NOT_VALID, UNFINISHED, Answer, Capacity, CapacitySpec, TimedSample

UNITS_OF_SHAPES = {"sequence_length": "tokens", "image_size": "images"}


def summarise(spec: CapacitySpec, records: CapacityRecords) -> Answer:
    rows = capacity_rows(spec, records)
    searched = {row.placement for row in rows if row.ended != NOT_VALID}
    timed = throughputs(records, plain_point(rows), spec.controls.protocol.target_half_width)
    rows = tuple(
        row
        if row.largest is None
        else dataclasses.replace(row, throughput=timed.get(Point(row.placement, row.largest)))
        for row in rows
    )
    ranked = comparable({point: of for point, of in timed.items() if point.placement in searched})
    multiples = at_multiples(spec, rows, records, ranked)
    return Answer(
        spec=spec,
        unit=unit_of(spec),
        rows=rows,
        frontier=throughput_frontier(ranked, records),
        at_multiples=multiples,
        findings=findings(spec, rows, multiples, unit_of(spec)),
        notes=notes(spec, rows, records),
        is_complete=_is_complete(spec, rows, records),
    )


def unit_of(spec: CapacitySpec) -> str:
    """What throughput counts."""
    return next((UNITS_OF_SHAPES[name] for name in spec.controls.workload.shape if name in UNITS_OF_SHAPES), "samples")


def _is_complete(spec: CapacitySpec, rows: Sequence[Capacity], records: CapacityRecords) -> bool:
    """Whether every placement has an answer (that none fits is one), and was timed where it was to be."""
    if any(row.ended in (UNFINISHED, FAILED) or (row.ended == NO_PROOF and row.largest is None) for row in rows):
        return False
    counts = Counter(Point(sample.placement, sample.size) for sample in records.of(TimedSample))
    points = points_to_time(spec, rows) if spec.rounds else ()
    return not any(point in failed_points(records) or not counts[point] for point in points)
