"""`frontier.json`, the whole of it, and `frontier.csv`, its trials as a table. Both can be rebuilt from the records."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

from bench.frontier.types import Frontier, Interval, Trial
from bench.records import DamagedStudyError, replace_text, write_json
from bench.spec import SCHEMA_VERSION, SpecError, from_mapping, to_mapping

FRONTIER_FILE = "frontier.json"
CSV_FILE = "frontier.csv"
GENERATOR_SEPARATOR = "; "


def write_frontier(directory: Path, frontier: Frontier) -> None:
    write_json(directory / FRONTIER_FILE, {"schema_version": SCHEMA_VERSION} | to_mapping(frontier))
    replace_text(directory / CSV_FILE, _csv(frontier))


def read_frontier(directory: Path) -> Frontier:
    """Raises DamagedStudyError when `frontier.json` is absent, unreadable or of another schema."""
    path = directory / FRONTIER_FILE
    remedy = "build it again from the study's records"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedStudyError(f"{directory}: no {FRONTIER_FILE}; {remedy}") from None
    except ValueError as error:
        raise DamagedStudyError(f"{path}: not JSON ({error}); {remedy}") from None
    version = data.pop("schema_version", None) if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise DamagedStudyError(f"{path}: schema_version {version!r}, expected {SCHEMA_VERSION}; {remedy}")
    # The values of the controls are of any kind, which `from_mapping` has no rule for.
    controls = data.get("controls")
    try:
        return dataclasses.replace(from_mapping(Frontier, data | {"controls": {}}), controls=controls)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}; {remedy}") from None


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
        elif isinstance(value, bool):
            row[field.name] = str(value).lower()
        else:
            row[field.name] = value
    return row
