"""What a verb answers: an exit code and the data that `out=FILE` receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.records import write_json
from bench.spec import SpecError

COMPLETE = 0
PARTIAL = 1
REQUEST_WRONG = 2


@dataclass(frozen=True, kw_only=True)
class Answer:
    exit_code: int
    """COMPLETE, PARTIAL (something asked for is missing) or REQUEST_WRONG."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The answer as plain JSON values."""


def out_path(option: str | None) -> Path | None:
    """The file named by `out=`, checked before any work is done for it."""
    if option is None:
        return None
    path = Path(option).expanduser().resolve()
    if path.is_dir():
        raise SpecError(f"out: {path} is a folder; name a file")
    if not path.parent.is_dir():
        raise SpecError(f"out: the folder {path.parent} does not exist")
    return path


def write_answers(path: Path, answers: list[Answer], multirun: bool) -> None:
    """One answer is written as it is; those of a multirun are a list."""
    data = [{"exit_code": answer.exit_code} | dict(answer.data) for answer in answers]
    write_json(path, data if multirun else data[0])
