"""`frontier.json`, the whole of it, and `frontier.csv`, its trials as a table. Both can be rebuilt from the records."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import io
from pathlib import Path
from typing import Any

import bench.stats
from bench.frontier.build import build_frontier
from bench.frontier.types import Frontier, Interval, Trial
from bench.records import (
    FORECAST_FILE,
    PLAN_FILE,
    SAMPLES_FILE,
    STUDY_FILE,
    TELEMETRY_SUMMARY_FILE,
    DamagedStudyError,
    read_records,
    read_study,
    replace_text,
    write_json,
)
from bench.records.reading import read_mapping
from bench.spec import SCHEMA_VERSION, SpecError, from_mapping, to_mapping

FRONTIER_FILE = "frontier.json"
CSV_FILE = "frontier.csv"
GENERATOR_SEPARATOR = "; "
KIND_SEPARATOR = " "
REMEDY = "build it again from the study's records: python -m bench plots study=…"
SOURCES = (STUDY_FILE, SAMPLES_FILE, TELEMETRY_SUMMARY_FILE, FORECAST_FILE, PLAN_FILE)
"""What a frontier is built from."""


def load_frontier(directory: Path) -> Frontier:
    """The frontier as the study's records have it now: `frontier.json` where it is of these, else built anew.

    Nothing is written: a reader need not own the directory, and a worker may be writing to it.

    Raises:
        DamagedStudyError: `study.json` cannot be read.
    """
    try:
        data = _read_data(directory / FRONTIER_FILE)
        if data.pop("built_from", None) == source_digest(directory):
            return _frontier(data, directory / FRONTIER_FILE)
    except DamagedStudyError:
        pass  # The records are the truth.
    return build_frontier(read_study(directory), read_records(directory))


def source_digest(directory: Path) -> str:
    """Hex over the files that a frontier is built from, and over the code that builds it.

    Contents and not times of change: a copy or a checkout of a study directory keeps the one and not the other.
    """
    digest = hashlib.sha256(_code_digest())
    for name in SOURCES:
        try:
            content = (directory / name).read_bytes()
        except FileNotFoundError:
            content = b""
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:32]


def write_frontier(directory: Path, frontier: Frontier, *, built_from: str | None = None) -> None:
    """Writes both files.

    Args:
        directory: the study directory.
        frontier: its frontier.
        built_from: `source_digest` from before the records were read, so that what is added meanwhile makes the file
            outdated; None for a frontier that `load_frontier` is never to take as it is.
    """
    head = {"schema_version": SCHEMA_VERSION} | ({"built_from": built_from} if built_from else {})
    write_json(directory / FRONTIER_FILE, head | to_mapping(frontier))
    replace_text(directory / CSV_FILE, _csv(frontier))


def read_frontier(directory: Path) -> Frontier:
    """`frontier.json` as it is. Raises DamagedStudyError when it is absent, unreadable or of another schema."""
    path = directory / FRONTIER_FILE
    data = _read_data(path)
    data.pop("built_from", None)
    return _frontier(data, path)


def _read_data(path: Path) -> dict[str, Any]:
    data = read_mapping(path, SCHEMA_VERSION, absent=REMEDY, remedy=REMEDY)
    del data["schema_version"]
    return data


def _frontier(data: dict[str, Any], path: Path) -> Frontier:
    # The values of the controls are of any kind, which `from_mapping` has no rule for.
    controls: Any = data.get("controls")
    try:
        return dataclasses.replace(from_mapping(Frontier, data | {"controls": {}}), controls=controls)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}; {REMEDY}") from None


@functools.cache
def _code_digest() -> bytes:
    """Over the sources that turn records into a frontier: what another version of them built is outdated."""
    folders = [Path(__file__).parent, *map(Path, bench.stats.__path__)]
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _csv(frontier: Frontier) -> str:
    text = io.StringIO()
    rows = [_row(trial) for trial in frontier.trials]
    writer = csv.DictWriter(text, fieldnames=_columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _columns() -> list[str]:
    return list(_row(Trial(placement="", id="", generators=(), outcome="")))


def _row(trial: Trial) -> dict[str, Any]:
    """One cell a field, the interval in two; what was not measured is an empty cell."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(trial):
        value = getattr(trial, field.name)
        if field.name == "time_ratio_interval":
            interval: Interval | None = value
            row |= {
                "time_ratio_low": interval.low if interval else None,
                "time_ratio_high": interval.high if interval else None,
            }
        elif field.name == "generators":
            row[field.name] = GENERATOR_SEPARATOR.join(value)
        elif isinstance(value, tuple):
            row[field.name] = KIND_SEPARATOR.join(value)
        elif isinstance(value, bool):
            row[field.name] = str(value).lower()
        else:
            row[field.name] = value
    return row
