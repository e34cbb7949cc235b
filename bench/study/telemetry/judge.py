"""Which rounds the hardware spoiled: pure functions of telemetry and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bench.records import TIME_CAP, Records, Stopped
from bench.study.telemetry.nvml import HW_POWER_BRAKE, HW_SLOWDOWN, HW_THERMAL, PERIOD_S, SW_THERMAL
from bench.study.telemetry.rounds import RoundSpan, discarded_rounds, kept_spans
from bench.study.telemetry.sampler import GPU
from bench.study.telemetry.store import Telemetry, TelemetrySample
from bench.study.telemetry.timeline import Timeline

SLOWDOWNS = {
    HW_THERMAL: "the GPU was too hot and the hardware slowed it down",
    HW_POWER_BRAKE: "the power supply braked the GPU",
    SW_THERMAL: "the GPU was too hot and its driver slowed it down",
    HW_SLOWDOWN: "the hardware slowed the GPU down",
}
"""Events that spoil a round. A software power cap does not: on many GPUs it is how full load looks."""
MANY_SAMPLES = 2
"""NVML may say `hw-slowdown` alone for a moment when clocks change, so one sample of it proves nothing."""


def slowed_rounds(spans: Iterable[RoundSpan], timeline: Timeline) -> dict[RoundSpan, str]:
    """Rounds during which the GPU was slowed down, with the reason.

    A sample says what is at one instant, so those up to one period before and after a round count for it too.
    """
    found: dict[RoundSpan, str] = {}
    for span in spans:
        events = [event for sample in timeline.during(span, GPU, PERIOD_S) for event in _events(sample)]
        for event, reason in SLOWDOWNS.items():
            if events.count(event) >= (MANY_SAMPLES if event == HW_SLOWDOWN else 1):
                found[span] = reason
                break
    return found


def rounds_to_discard(records: Records, telemetry: Telemetry, rounds_max: int) -> dict[RoundSpan, str]:
    """Slowed rounds that should be measured again, with the reason; each round once.

    None of an execution that has `rounds_max` discarded rounds already, or that its time cap ended: a GPU that is
    always slowed down makes a study take about twice as long and ends in a note, not in an endless loop.
    """
    discarded = Counter(execution for execution, _ in discarded_rounds(records))
    cut = {stop.execution for stop in records.of(Stopped) if stop.reason == TIME_CAP}
    full = {execution for execution, number in discarded.items() if number >= rounds_max}
    spans = (span for span in kept_spans(records) if span.execution not in cut | full)
    slowed = slowed_rounds(spans, Timeline(telemetry.samples))
    first = {span.key: span for span in reversed(slowed)}
    return {span: slowed[span] for span in reversed(first.values())}


def _events(sample: TelemetrySample) -> list[str]:
    return str(sample.values.get("clock_events", "")).split()
