"""`telemetry.jsonl`: one JSON object a line, with `unix_time_s` and `source`; `docs/records.md` lists the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import TELEMETRY_SUMMARY_FILE
from bench.study.telemetry.sampler import RECORDER, Scalar

TELEMETRY_FILE = "telemetry.jsonl"
SUMMARY_FILE = TELEMETRY_SUMMARY_FILE


@dataclass(frozen=True, kw_only=True)
class TelemetrySample:
    unix_time_s: float
    source: str
    values: Mapping[str, Scalar]
    gpu_pci_bus_id: str | None = None
    """The GPU that was watched; None where the recorder knew none."""


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    samples: tuple[TelemetrySample, ...] = ()
    """Of the devices."""
    events: tuple[TelemetrySample, ...] = ()
    """What the recorder says of itself."""


def format_line(unix_time_s: float, source: str, values: Mapping[str, Scalar]) -> bytes:
    data = {"unix_time_s": round(unix_time_s, 3), "source": source, **values}
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def read_telemetry(directory: Path) -> Telemetry:
    """All of a study; an absent file is none. A line that is no sample, such as one torn by a kill, is skipped."""
    samples: list[TelemetrySample] = []
    events: list[TelemetrySample] = []
    watched: str | None = None
    for data in _lines(directory / TELEMETRY_FILE):
        try:
            unix_time_s, source = float(data.pop("unix_time_s")), str(data.pop("source"))
        except (KeyError, ValueError, TypeError):
            continue
        if source == RECORDER and "gpu_pci_bus_id" in data:
            watched = data["gpu_pci_bus_id"] or None
        sample = TelemetrySample(unix_time_s=unix_time_s, source=source, values=data, gpu_pci_bus_id=watched)
        (events if source == RECORDER else samples).append(sample)
    return Telemetry(samples=tuple(samples), events=tuple(events))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        for line in file:
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict):
                yield data
