"""What a reader of a study must know of its telemetry: `telemetry.json`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.records import Records, read_records, write_json
from bench.study.telemetry.judge import slowed_rounds
from bench.study.telemetry.nvml import SW_POWER_CAP
from bench.study.telemetry.rounds import RoundSpan, discarded_rounds, kept_spans, num_rounds
from bench.study.telemetry.sampler import CPU, GPU
from bench.study.telemetry.store import SUMMARY_FILE, Telemetry, TelemetrySample, read_telemetry
from bench.study.telemetry.timeline import Timeline

OTHERS_SHARE = 0.1
"""Other processes may take this share of the study's cores before a note says so."""
STEAL_SHARE = 0.02
"""The same for a hypervisor."""
THROTTLED_SHARE = 0.01
"""The same for the share of time in which a CPU quota stopped the study."""


def summarize(directory: Path) -> dict[str, Any]:
    """Writes and returns `telemetry.json`: `notes`, how many rounds it is about, and `quantities`, which are least,
    median and greatest value of each number over all samples in the rounds that count."""
    records, telemetry = read_records(directory), read_telemetry(directory)
    spans = kept_spans(records)
    summary = {
        "rounds": num_rounds(spans),
        "discarded_rounds": len(discarded_rounds(records)),
        "notes": list(notes_of(records, telemetry)),
        "quantities": _quantities(spans, Timeline(telemetry.samples)),
        "recorder": _recorder(telemetry),
    }
    write_json(directory / SUMMARY_FILE, summary)
    return summary


def telemetry_notes(directory: Path) -> tuple[str, ...]:
    """Sentences about a study's telemetry; none where nothing is worth saying."""
    return notes_of(read_records(directory), read_telemetry(directory))


def notes_of(records: Records, telemetry: Telemetry) -> tuple[str, ...]:
    spans, timeline = kept_spans(records), Timeline(telemetry.samples)
    return (
        *_still_slowed(spans, timeline),
        *_power_capped(spans, timeline),
        *_strangers_on_gpu(spans, timeline),
        *_shares(spans, timeline),
        *_other_gpu(spans, timeline),
        *_problems(telemetry),
    )


def _still_slowed(spans: Sequence[RoundSpan], timeline: Timeline) -> list[str]:
    slowed = slowed_rounds(spans, timeline)
    return [
        f"{reason} in {_share_of(of_reason, spans)} that count: mend cooling or power, and measure the study anew"
        for reason in dict.fromkeys(slowed.values())
        if (of_reason := [span for span in slowed if slowed[span] == reason])
    ]


def _power_capped(spans: Sequence[RoundSpan], timeline: Timeline) -> list[str]:
    capped = [
        span
        for span in spans
        if any(SW_POWER_CAP in str(s.values.get("clock_events", "")).split() for s in timeline.during(span, GPU))
    ]
    if not capped:
        return []
    return [f"the GPU's power limit held its clocks down in {_share_of(capped, spans)}: usual under full load"]


def _strangers_on_gpu(spans: Sequence[RoundSpan], timeline: Timeline) -> list[str]:
    most = {span: max(_numbers(timeline.during(span, GPU), "other_processes"), default=0) for span in spans}
    shared = [span for span in spans if most[span] > 0]
    if not shared:
        return []
    number = int(max(most.values()))
    who = "another process was" if number == 1 else f"up to {number} other processes were"
    return [f"{who} on the GPU in {_share_of(shared, spans)}: times and peaks of the device may be theirs"]


def _shares(spans: Sequence[RoundSpan], timeline: Timeline) -> list[str]:
    notes: list[str] = []
    for quantity, limit, sentence in (
        ("other_share", OTHERS_SHARE, "other processes took {mean} of the cores during the rounds (up to {most})"),
        ("steal_share", STEAL_SHARE, "the hypervisor took {mean} of the cores' time from this machine (up to {most})"),
        ("throttled_share", THROTTLED_SHARE, "a CPU quota stopped the study for {mean} of the time (up to {most})"),
    ):
        of_rounds = [
            statistics.fmean(values) for span in spans if (values := _numbers(timeline.during(span, CPU), quantity))
        ]
        mean = statistics.fmean(of_rounds) if of_rounds else 0.0
        if mean > limit:
            most = f"{100 * max(of_rounds):.0f} % in one round"
            notes.append(sentence.format(mean=f"{100 * mean:.0f} %", most=most))
    return notes


def _other_gpu(spans: Sequence[RoundSpan], timeline: Timeline) -> list[str]:
    watched = {bus_id for span in spans for bus_id in timeline.other_gpus(span)}
    if not watched:
        return []
    names = ", ".join(sorted(watched))
    return [f"telemetry watched the GPU at {names}, the worker used another: set CUDA_DEVICE_ORDER=PCI_BUS_ID"]


def _problems(telemetry: Telemetry) -> list[str]:
    """What could not be watched, once each, and a file that is full."""
    gpu = [sample for sample in telemetry.samples if sample.source == GPU]
    blind = bool(gpu) and not any("clock_events" in sample.values for sample in gpu)
    told = [str(event.values["problem"]) for event in telemetry.events if event.values.get("problem")]
    full = any(event.values.get("full") == "True" for event in telemetry.events)
    if blind:
        told.append("the GPU's clock events cannot be read here: rounds that it was slowed down in go unnoticed")
    return [*dict.fromkeys(told), *(["telemetry is full: later rounds were not watched"] if full else [])]


def _quantities(spans: Sequence[RoundSpan], timeline: Timeline) -> dict[str, dict[str, float]]:
    inside = [(source, sample) for span in spans for source in (GPU, CPU) for sample in timeline.during(span, source)]
    names = dict.fromkeys((source, name) for source, sample in inside for name in sample.values)
    found: dict[str, dict[str, float]] = {}
    for source, name in names:
        values = _numbers([sample for of, sample in inside if of == source], name)
        if values:
            found[f"{source}.{name}"] = {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
    return found


def _recorder(telemetry: Telemetry) -> dict[str, float]:
    """What recording itself took: CPU seconds over wall seconds of all recorders that came to their end."""
    ends = [event.values for event in telemetry.events if event.values.get("event") == "end"]
    wall_s, cpu_s = (sum(float(end[name]) for end in ends) for name in ("wall_s", "cpu_s"))
    return {"wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 4)} | ({"cpu_share": cpu_s / wall_s} if wall_s else {})


def _share_of(some: Sequence[RoundSpan], spans: Sequence[RoundSpan]) -> str:
    return f"{num_rounds(some)} of {num_rounds(spans)} rounds"


def _numbers(samples: Sequence[TelemetrySample], name: str) -> list[float]:
    values = (sample.values.get(name) for sample in samples)
    return [value for value in values if isinstance(value, (int, float))]
