"""Sentences of the answer: what the freed memory buys, and what the numbers are not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bench.capacity.axis import samples_at
from bench.capacity.placing import is_named_by_text
from bench.capacity.reading import rate_among
from bench.capacity.rows import verdict_of
from bench.capacity.store import CapacityRecords
from bench.capacity.timing import Point, plain_point
from bench.capacity.types import (
    ASKED,
    BATCH,
    DEVICE,
    GLOBAL_BATCH,
    MODEL,
    NOT_VALID,
    UNAUDITED,
    AtMultiple,
    Audited,
    Capacity,
    CapacitySpec,
    Probe,
    SampleFailed,
    Throughput,
    TimedSample,
    TimingEnded,
)
from bench.capacity.words import mib_text
from bench.records import PLAIN
from bench.spec import OFF
from bench.stats.verdict import FASTER


def findings(
    spec: CapacitySpec, rows: Sequence[Capacity], multiples: Sequence[AtMultiple], unit: str
) -> tuple[str, ...]:
    return tuple(_findings(spec, rows, multiples, unit))


def notes(spec: CapacitySpec, rows: Sequence[Capacity], records: CapacityRecords) -> tuple[str, ...]:
    return tuple(_notes(spec, rows, records))


def _findings(
    spec: CapacitySpec, rows: Sequence[Capacity], multiples: Sequence[AtMultiple], unit: str
) -> Iterator[str]:
    axis, plain = spec.axis.name, plain_point(rows)
    reach = [row for row in rows if row.largest is not None]
    if not reach:
        yield f"no placement fits within {mib_text(spec.usable_bytes)} at any {axis}"
        return
    far = max(reach, key=lambda row: (row.largest or 0, rate_among(reach, row)))
    if plain is None:
        yield f"`none` fits at no {axis}; {far.placement} reaches {far.largest}"
    elif far.placement == PLAIN or far.largest == plain.size:
        yield f"no placement reaches a larger {axis} than `none`, {plain.size}"
    else:
        yield (
            f"{far.times_none:.3g} times the {axis} of `none` ({far.largest} against {plain.size}) in the same memory"
            f"{_at_share(far.throughput)}, with {far.placement}"
        )
    for multiple in multiples:
        best = next((at for at in multiple.rows if at.placement == multiple.best), None)
        if best is not None:
            yield (
                f"{multiple.multiple} times the {axis} in the same memory{_at_share(best.throughput)}, with "
                f"{best.placement}"
            )
        elif any((row.largest or 0) >= (multiple.size or math.inf) for row in reach):
            yield f"{multiple.multiple} times the {axis}: {multiple.reason}"
        elif plain is not None:
            yield f"{multiple.multiple} times the {axis} is not reached: {multiple.reason}"
    faster = [row for row in reach if row.placement != PLAIN and row.throughput and row.throughput.verdict == FASTER]
    if faster and spec.axis.kind == BATCH:
        best_row = max(faster, key=lambda row: (row.throughput.relative or 0) if row.throughput else 0)
        assert best_row.throughput is not None
        if best_row.times_none is not None and best_row.times_none > 1:
            yield (
                f"{best_row.placement} is faster than `none` because its {axis} is larger: {best_row.largest} against "
                f"{plain.size if plain else 0}, {_share(best_row.throughput)} of its {unit} a second"
            )


def _notes(spec: CapacitySpec, rows: Sequence[Capacity], records: CapacityRecords) -> Iterator[str]:
    yield from _what_was_asked(spec, rows)
    yield from _what_was_not_proven(spec, rows, records)
    yield from _how_it_was_timed(spec, records)


def _what_was_asked(spec: CapacitySpec, rows: Sequence[Capacity]) -> Iterator[str]:
    left_out = [spec.axis.path, *spec.axis.also]
    if spec.keep == GLOBAL_BATCH:
        left_out.append("workload.accumulation")
        yield (
            f"accumulation changes with the {spec.axis.name}, so that the optimizer sees "
            f"{samples_at(spec, spec.start)} samples in every step, as asked"
        )
    elif spec.axis.kind == BATCH:
        asked = samples_at(spec, spec.start)
        seen = sorted({samples_at(spec, row.largest) for row in rows if row.largest is not None} - {asked})
        if seen:
            numbers = str(seen[0]) if len(seen) == 1 else f"{seen[0]} to {seen[-1]}"
            yield (
                f"the optimizer sees {numbers} samples a step instead of the {asked} asked for: another training, with "
                "another learning rate to find; keep=global-batch holds it fixed"
            )
    yield f"the key {spec.key} is that of the controls without {' and '.join(left_out)}, with limit and axis"
    if spec.limit_source == DEVICE:
        yield f"the limit, {mib_text(spec.limit_bytes)}, is what this device has"
    if spec.headroom:
        yield f"{100 * spec.headroom:g} % of the limit stays free: a peak may be {mib_text(spec.usable_bytes)}"
    if spec.limit_source == ASKED and spec.controls.device.kind == "cpu":
        yield (
            "on the CPU the allocator's peak is held against the limit; what the process takes besides (libraries, "
            "fragmentation) is not in it"
        )
    if spec.controls.workload.lengths == "variable":
        yield "sizes are proven with every micro-batch at its full length, the worst batch; they are timed as asked"
    if spec.axis.kind == MODEL:
        yield f"{spec.axis.name} changes the model, so throughput compares different models: it says what each costs"
        if any(is_named_by_text(row.generators) for row in rows):
            yield "placements that were named by their text name the same units at every size"
    if spec.evaluation:
        yield "an evaluation forward runs between the two steps of each probe, and its peak counts"


def _what_was_not_proven(spec: CapacitySpec, rows: Sequence[Capacity], records: CapacityRecords) -> Iterator[str]:
    if spec.audit == OFF:
        yield "audit=off: it was not proved that replays train as the plain step does"
    for row in rows:
        if row.ended == NOT_VALID:
            twin = next((r.twin for r in records.of(Audited) if r.placement == row.placement and r.twin), None)
            instead = f"; {twin} takes its place" if twin else ""
            yield f"{row.placement} was not searched: {row.reason}{instead}"
        verdict = verdict_of(records, row.placement)
        if spec.audit != OFF and verdict is not None and verdict.outcome == UNAUDITED:
            yield f"{row.placement} was searched unaudited: {verdict.reason}"
        if row.holes:
            sizes = ", ".join(map(str, row.holes))
            yield f"{row.placement}: {row.largest} fits although {sizes} did not; memory does not grow with size here"
    errors = [
        (probe.peak_allocated_bytes - probe.forecast_bytes) / probe.peak_allocated_bytes
        for probe in records.of(Probe)
        if probe.peak_allocated_bytes and probe.forecast_bytes
    ]
    if errors:
        worst = max(errors, key=abs)
        off = "to the byte" if worst == 0 else f"within {100 * abs(worst):.2g} % of the peak"
        yield f"forecasts that a probe was held against agreed {off} ({len(errors)} probes)"


def _how_it_was_timed(spec: CapacitySpec, records: CapacityRecords) -> Iterator[str]:
    if not spec.rounds:
        yield "rounds=0: nothing was timed"
        return
    ends = records.of(TimingEnded)
    if ends and ends[-1].reason != "rounds":
        yield f"timing ended by its {ends[-1].reason} after {ends[-1].rounds} rounds"
    timed = {Point(sample.placement, sample.size) for sample in records.of(TimedSample)}
    failures = {Point(failed.placement, failed.size): failed for failed in records.of(SampleFailed)}
    for failed in failures.values():
        yield f"{failed.placement} could not be timed at {failed.size}: {failed.outcome}: {failed.reason}"
    if spec.axis.kind == MODEL and records.of(TimedSample):
        yield "each sample has a process of its own, since the model differs from size to size"
    lost = len(failures.keys() - timed)
    if lost:
        yield f"{lost} of the points to time have no throughput"


def _at_share(throughput: Throughput | None) -> str:
    if throughput is None or throughput.relative is None:
        return ""
    return f" at {_share(throughput)} of the throughput"


def _share(throughput: Throughput) -> str:
    """With its interval at 95 %, where there is one."""
    if throughput.relative_interval is None:
        return _percent(throughput.relative)
    low, high = (f"{100 * end:.3g}" for end in throughput.relative_interval)
    return f"{_percent(throughput.relative)} ({low} to {high} %)"


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{100 * share:.3g} %"
