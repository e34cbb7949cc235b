"""Reading files that must be there and sound: a JSON mapping of one schema version, and records a line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

READABLE = "make it a readable file"


class DamagedStudyError(ValueError):
    """A study directory that cannot be read: names the file, what was expected, and what to do."""


def read_mapping(path: Path, version: int, *, absent: str, remedy: str, outdated: str | None = None) -> dict[str, Any]:
    """What the file holds, its `schema_version` included.

    Args:
        absent: what it means that there is no such file, or what to do then.
        remedy: what to do where it is damaged.
        outdated: likewise where it is of another version; None takes `remedy`.

    Raises:
        DamagedStudyError: it is absent, unreadable, no JSON mapping, or of another version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedStudyError(f"{path.parent}: no {path.name}; {absent}") from None
    except OSError as error:
        raise DamagedStudyError(f"{path}: cannot be read ({error.strerror}); {READABLE}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedStudyError(f"{path}: not JSON ({error}); {remedy}") from None
    found = data.get("schema_version") if isinstance(data, dict) else None
    if found != version:
        raise DamagedStudyError(f"{path}: schema_version {found!r}, expected {version}; {outdated or remedy}")
    mapping: dict[str, Any] = data
    return mapping


def read_lines(path: Path, parse: Callable[[bytes], R | None]) -> tuple[tuple[R, ...], tuple[int, ...]]:
    """(records, 1-based numbers of the lines that are none, such as one torn by a kill); nothing of an absent file.

    Raises:
        DamagedStudyError: the file cannot be read at all.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        raise DamagedStudyError(f"{path}: cannot be read ({error.strerror}); {READABLE}") from None
    records: list[R] = []
    damaged: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            record = parse(line)
            records.append(record) if record is not None else damaged.append(number)
    return tuple(records), tuple(damaged)
