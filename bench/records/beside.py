"""Files beside a study's records: a JSON mapping each, with a version. One that cannot be read counts as absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from bench.records.write import write_json
from bench.spec import SpecError, from_mapping, to_mapping

T = TypeVar("T")

REMADE_BY = "the next sweep of this study"
PROBLEM = "problem"
"""Field of each such file's dataclass: why it could not be read. Never written."""


def read_beside(path: Path, kind: type[T], version: int, remade_by: str = REMADE_BY) -> T:
    """An empty `kind` of an absent file; of one that cannot be read an empty one with its problem.

    Args:
        remade_by: what makes the file anew, for people.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError, RecursionError) as error:
        return unreadable(path, kind, str(error), remade_by)
    found = data.pop("schema_version", None) if isinstance(data, dict) else None
    if found != version:
        return unreadable(path, kind, f"schema_version {found!r}, expected {version}", remade_by)
    try:
        return from_mapping(kind, data)
    except SpecError as error:
        return unreadable(path, kind, str(error), remade_by)


def unreadable(path: Path, kind: type[T], why: str, remade_by: str = REMADE_BY) -> T:
    told = f"{path.name} cannot be read ({why}): {remade_by} makes it anew"
    return kind(**{PROBLEM: told})


def write_beside(path: Path, value: Any, version: int) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    data = to_mapping(value)
    del data[PROBLEM]
    write_json(path, {"schema_version": version} | data)
