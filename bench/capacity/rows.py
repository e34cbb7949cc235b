"""A row a placement: how far it reaches, by what proof, and why no further."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bench.capacity.axis import accumulation_at, sizes_of
from bench.capacity.search import FAILURES, Done, Known, Search, next_step
from bench.capacity.store import CapacityRecords
from bench.capacity.types import (
    AT_BOUND,
    DOES_NOT_FIT,
    FITS,
    NO_PROOF,
    NONE_FITS,
    NOT_TRIED,
    NOT_VALID,
    SETTLED,
    UNFINISHED,
    Audited,
    Capacity,
    CapacitySpec,
    Expected,
    Probe,
)
from bench.records import PLAIN
from bench.spec import GATE, PlacementEntry


def capacity_rows(spec: CapacitySpec, records: CapacityRecords) -> tuple[Capacity, ...]:
    """In the order of the spec, without throughput."""
    rows = [_row(spec, entry, records) for entry in spec.placements]
    plain = next((row.largest for row in rows if row.placement == PLAIN), None)
    return tuple(
        row if row.largest is None or plain is None else dataclasses.replace(row, times_none=row.largest / plain)
        for row in rows
    )


def search_of(spec: CapacitySpec, records: CapacityRecords, placement: str, *, num_before: int = 0) -> Search:
    """What is known of one placement.

    Args:
        num_before: probes of all placements that were recorded before this search began: what could not be tried then,
            for want of free memory, can be now.
    """
    stale = {id(probe) for probe in records.of(Probe)[:num_before] if probe.outcome == NOT_TRIED}
    return Search(
        sizes=sizes_of(spec),
        start=spec.start,
        limit_bytes=spec.usable_bytes,
        expected={r.size: r.peak_allocated_bytes for r in records.of(Expected) if r.placement == placement},
        probed={
            size: Known(outcome=probe.outcome, peak_bytes=probe.peak_allocated_bytes)
            for size, probe in probes_of(records, placement).items()
            if id(probe) not in stale
        },
    )


def probes_of(records: CapacityRecords, placement: str) -> dict[int, Probe]:
    """Size → its last probe."""
    return {record.size: record for record in records.of(Probe) if record.placement == placement}


def verdict_of(records: CapacityRecords, placement: str) -> Audited | None:
    """The last one."""
    return next((record for record in reversed(records.of(Audited)) if record.placement == placement), None)


def is_searched(spec: CapacitySpec, records: CapacityRecords, entry: PlacementEntry) -> bool:
    """Whether it is known to train as the plain step does, or need not be. What is known not to is not searched,
    whether an audit is asked for or not."""
    verdict = verdict_of(records, entry.text)
    if verdict is not None:
        return verdict.lets_it_be_searched
    return spec.audit != GATE or entry.text == PLAIN


def _row(spec: CapacitySpec, entry: PlacementEntry, records: CapacityRecords) -> Capacity:
    verdict = verdict_of(records, entry.text)
    ended = _ended(spec, entry, records, verdict)
    # What ran before the verdict came is no answer, however far it went.
    probes = {} if ended == NOT_VALID else probes_of(records, entry.text)
    largest = max((size for size, probe in probes.items() if probe.outcome == FITS), default=None)
    beyond_size = min((s for s, p in probes.items() if p.outcome != FITS and s > (largest or 0)), default=None)
    best = None if largest is None else probes[largest]
    beyond = None if beyond_size is None else probes[beyond_size]
    peak = None if best is None else best.peak_allocated_bytes
    return Capacity(
        placement=entry.text,
        generators=entry.generators,
        ended=ended,
        reason=_reason(spec, ended, probes, largest, beyond, verdict),
        largest=largest,
        times_none=None,
        accumulation=None if largest is None else accumulation_at(spec, largest),
        peak_allocated_bytes=peak,
        peak_reserved_bytes=None if best is None else best.peak_reserved_bytes,
        forecast_bytes=None if best is None else best.forecast_bytes,
        margin_bytes=None if peak is None else spec.limit_bytes - peak,
        next_size=beyond_size,
        next_outcome=None if beyond is None else beyond.outcome,
        next_peak_bytes=None if beyond is None else beyond.peak_allocated_bytes,
        next_reason="" if beyond is None else beyond.reason,
        holes=tuple(sorted(s for s, p in probes.items() if p.outcome == DOES_NOT_FIT and s < (largest or 0))),
        num_probes=sum(1 for record in records.of(Probe) if record.placement == entry.text),
        throughput=None,
    )


def _ended(spec: CapacitySpec, entry: PlacementEntry, records: CapacityRecords, verdict: Audited | None) -> str:
    if verdict is not None and not verdict.lets_it_be_searched:
        return NOT_VALID
    if not is_searched(spec, records, entry):
        return UNFINISHED
    step = next_step(search_of(spec, records, entry.text))
    return step.ended if isinstance(step, Done) else UNFINISHED


def _reason(
    spec: CapacitySpec,
    ended: str,
    probes: Mapping[int, Probe],
    largest: int | None,
    beyond: Probe | None,
    verdict: Audited | None,
) -> str:
    """Why the search ended as it did. Of what failed, the first true error."""
    axis = spec.axis.name
    if ended == NOT_VALID and verdict is not None:
        return f"its replay is {verdict.outcome}: {verdict.reason}".rstrip(": ")
    if ended == UNFINISHED:
        return "the search is not finished; the same command goes on"
    if ended == AT_BOUND:
        return f"the search goes no further than {largest}"
    if beyond is not None and ended == SETTLED:
        return f"{axis} {largest} fits, {beyond.size} does not: {beyond.reason}"
    failed = _first_failure(probes)
    if beyond is not None and ended == NONE_FITS:
        before = "" if failed is None else f"; at {failed.size} it failed otherwise: {failed.reason}"
        return f"not even {axis} {beyond.size} fits: {beyond.reason}{before}"
    if beyond is not None and ended == NO_PROOF:
        return f"{axis} {beyond.size} was not tried: {beyond.reason}"
    failed = failed or beyond
    return "" if failed is None else f"{axis} {failed.size}: {failed.outcome}: {failed.reason}"


def _first_failure(probes: Mapping[int, Probe]) -> Probe | None:
    """The first in time that is no matter of memory."""
    by_time = sorted(probes.values(), key=lambda probe: probe.unix_time_s)
    return next((probe for probe in by_time if probe.outcome in FAILURES), None)
