"""When a study was measured, from its records: publishing again must give the same times, whenever it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.records import Record, read_records

LATEST_S = 2.0**33
"""Year 2242: a record that claims more has a broken clock, and MLflow's UI cannot show it."""


@dataclass(frozen=True, kw_only=True)
class Span:
    start_ms: int
    """Unix time."""
    end_ms: int


@dataclass(frozen=True, kw_only=True)
class StudyTimes:
    origin: str
    """Random id of the process that wrote the first record: tells two measurements with equal names and keys apart
    on a server that several people share. Empty without records."""
    study: Span
    placements: Mapping[str, Span]
    """Placement text → from the first to the last record that names it."""


def read_times(directory: Path) -> StudyTimes:
    """A study without usable times is dated by its `study.json`, or its folder."""
    records = [entry for entry in read_records(directory).entries if 0 < entry.unix_time_s < LATEST_S]
    placements: dict[str, list[Record]] = {}
    for record in records:
        placement = getattr(record, "placement", None)
        if placement is not None:
            placements.setdefault(placement, []).append(record)
    return StudyTimes(
        origin=records[0].process if records else "",
        study=_span(records) if records else _dated_by_file(directory),
        placements={text: _span(named) for text, named in placements.items()},
    )


def _span(records: list[Record]) -> Span:
    times = [record.unix_time_s for record in records]
    return Span(start_ms=round(min(times) * 1000), end_ms=round(max(times) * 1000))


def _dated_by_file(directory: Path) -> Span:
    study = directory / "study.json"
    time_ms = round((study if study.exists() else directory).stat().st_mtime * 1000)
    return Span(start_ms=time_ms, end_ms=time_ms)
