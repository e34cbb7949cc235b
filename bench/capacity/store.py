"""A capacity directory: `capacity.json`, `probes.jsonl`, `answer.json`. JSON, written whole or by line."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.capacity.types import (
    CAPACITY_SCHEMA_VERSION,
    Answer,
    Audited,
    CapacitySpec,
    Expected,
    Probe,
    Record,
    SampleFailed,
    Starting,
    TimedSample,
    TimingEnded,
)
from bench.records import DamagedStudyError, make_directory, slug, write_json
from bench.records.reading import read_lines, read_mapping
from bench.records.write import LineWriter
from bench.spec import SpecError, from_mapping, short_key, to_mapping

SPEC_FILE, PROBES_FILE, ANSWER_FILE, ANSWER_TABLE_FILE = "capacity.json", "probes.jsonl", "answer.json", "answer.csv"
RECORD_KINDS: dict[str, type[Any]] = {
    "starting": Starting,
    "expected": Expected,
    "probe": Probe,
    "audited": Audited,
    "sample": TimedSample,
    "sample-failed": SampleFailed,
    "timing-ended": TimingEnded,
}
KIND_NAMES = {cls: name for name, cls in RECORD_KINDS.items()}
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class CapacityRecords:
    entries: tuple[Record, ...] = ()
    damaged_lines: tuple[int, ...] = ()
    """1-based numbers of lines that are no records, such as one torn by a kill; they are skipped, never rewritten."""

    def of(self, kind: type[R]) -> list[R]:
        return [entry for entry in self.entries if isinstance(entry, kind)]


def capacity_path(results: Path, spec: CapacitySpec) -> Path:
    return results / f"{slug(spec.name)}-capacity-{short_key(spec.key)}"


def is_capacity(directory: Path) -> bool:
    return (directory / SPEC_FILE).is_file()


def read_spec(directory: Path) -> CapacitySpec:
    """Raises DamagedStudyError where `capacity.json` is absent, unreadable or of another schema."""
    return _read(directory / SPEC_FILE, CapacitySpec)


def write_spec(directory: Path, spec: CapacitySpec) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    make_directory(directory)
    write_json(directory / SPEC_FILE, to_mapping(spec))


def read_answer(directory: Path) -> Answer:
    """Raises DamagedStudyError where `answer.json` is absent, unreadable or of another schema."""
    return _read(directory / ANSWER_FILE, Answer)


def write_answer(directory: Path, answer: Answer) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    write_json(directory / ANSWER_FILE, to_mapping(answer))


def read_capacity_records(directory: Path) -> CapacityRecords:
    """Of an absent file none. Damaged lines are named, not raised.

    Raises:
        DamagedStudyError: the file cannot be read at all.
    """
    read: tuple[tuple[Record, ...], tuple[int, ...]] = read_lines(directory / PROBES_FILE, parse_capacity_record)
    entries, damaged = read
    return CapacityRecords(entries=entries, damaged_lines=damaged)


def parse_capacity_record(line: bytes) -> Record | None:
    """The record on one line, or None where the line is none, or of another version."""
    try:
        data = json.loads(line)
        if data.pop("v") != CAPACITY_SCHEMA_VERSION:
            return None
        record: Record = from_mapping(RECORD_KINDS[data.pop("kind")], data)
        return record
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


class CapacityWriter:
    """Appends records to `probes.jsonl`, one line each, on the disk before it returns; keeps them all in memory too."""

    def __init__(self, directory: Path) -> None:
        """Raises CannotWriteError, or DamagedStudyError where what is there cannot be read."""
        self._entries = list(read_capacity_records(directory).entries)
        self._lines = LineWriter(directory / PROBES_FILE)

    @property
    def records(self) -> CapacityRecords:
        return CapacityRecords(entries=tuple(self._entries))

    def write(self, kind: type[R], **fields: Any) -> R:
        """Stamps and appends one. Raises CannotWriteError: no part of it is in the file."""
        make: Any = kind
        record = make(unix_time_s=round(time.time(), 3), **fields)
        head = {"v": CAPACITY_SCHEMA_VERSION, "kind": KIND_NAMES[kind]}
        line = json.dumps(head | to_mapping(record), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
        self._lines.append(line.encode() + b"\n")
        self._entries.append(record)
        return record

    def close(self) -> None:
        self._lines.close()


def _read(path: Path, kind: type[R]) -> R:
    absent, outdated = "this is not a finished capacity directory", "search again"
    remedy = "restore it, or run the search again"
    data = read_mapping(path, CAPACITY_SCHEMA_VERSION, absent=absent, remedy=remedy, outdated=outdated)
    try:
        return from_mapping(kind, data)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}; {remedy}") from None
