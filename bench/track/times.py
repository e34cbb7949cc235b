"""When something was measured, from its records: publishing again must give the same times, whenever it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.records import STUDY_FILE, read_records

LATEST_S = 2.0**33
"""Year 2242: a record that claims more has a broken clock, and MLflow's UI cannot show it."""


@dataclass(frozen=True, kw_only=True)
class Span:
    start_ms: int
    """Unix time."""
    end_ms: int


@dataclass(frozen=True, kw_only=True)
class Times:
    origin: str
    """Tells two directories with equal names and keys apart on a server that several people share: of a study, the
    random id of the process that wrote the first record. Empty without records."""
    whole: Span
    placements: Mapping[str, Span]
    """Placement text → from the first to the last record that names it."""


class Dated(Protocol):
    """A record."""

    @property
    def unix_time_s(self) -> float: ...


def read_times(directory: Path) -> Times:
    """Of a study; one without usable times is dated by its `study.json`, or its folder."""
    entries = [entry for entry in read_records(directory).entries if _is_usable(entry)]
    study = directory / STUDY_FILE
    return times_of(
        entries, origin=entries[0].process if entries else "", dated_by=study if study.exists() else directory
    )


def times_of(records: Sequence[Dated], *, origin: str, dated_by: Path) -> Times:
    """
    Args:
        dated_by: the file that tells when it was where no record has a usable time.
    """
    placements: dict[str, list[float]] = {}
    usable = [record for record in records if _is_usable(record)]
    for record in usable:
        placement = getattr(record, "placement", None)
        if placement is not None:
            placements.setdefault(placement, []).append(record.unix_time_s)
    return Times(
        origin=origin,
        whole=_span([record.unix_time_s for record in usable] or [dated_by.stat().st_mtime]),
        placements={text: _span(named) for text, named in placements.items()},
    )


def _is_usable(record: Dated) -> bool:
    return 0 < record.unix_time_s < LATEST_S


def _span(times: Sequence[float]) -> Span:
    return Span(start_ms=round(min(times) * 1000), end_ms=round(max(times) * 1000))
