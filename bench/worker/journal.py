"""The records of one worker process, written as they come."""

from __future__ import annotations

import time
import uuid
from typing import Any, TypeVar

from bench.records import OutcomeRecord, Record, RecordWriter, Starting
from bench.records.write import CannotWriteError

R = TypeVar("R", bound=Record)


class MeasuredBeforeError(BaseException):
    """A placement that is here only to be compared with, and has its results already, failed: says why."""


class CannotRecordError(BaseException):
    """The study cannot be written to, which is no placement's fault. Passes through the guard of a single placement:
    without records, nothing that comes after counts."""


class Journal:
    """Stamps records with execution, process and time, and appends them to the study."""

    def __init__(self, writer: RecordWriter, execution: int, missing: frozenset[str]) -> None:
        self._writer = writer
        self._missing = set(missing)
        self.execution = execution
        self.directory = writer.directory
        """Of the study."""
        self.process = uuid.uuid4().hex[:8]
        self.failed: set[str] = set()
        """Placements that this process wrote an outcome for."""

    def write(self, kind: type[R], **fields: Any) -> R:
        """Raises CannotRecordError."""
        now = round(time.time(), 3)
        record = kind(execution=self.execution, process=self.process, unix_time_s=now, **fields)
        try:
            self._writer.append(record)
        except CannotWriteError as error:
            raise CannotRecordError(str(error)) from error
        return record

    def starting(self, stage: str, placement: str | None = None, round: int | None = None) -> None:
        self.write(Starting, stage=stage, placement=placement, round=round)

    def finds_out_about(self, placement: str) -> None:
        """This one too, though the study does not have it."""
        self._missing.add(placement)

    def outcome(self, placement: str, outcome: str, reason: str, stage: str) -> None:
        """Raises MeasuredBeforeError where the placement is not one of those that this process is to find out about."""
        if placement not in self._missing:
            raise MeasuredBeforeError(f"{placement} was measured before and now fails at {stage}: {outcome}: {reason}")
        self.failed.add(placement)
        self.write(OutcomeRecord, placement=placement, outcome=outcome, reason=reason, stage=stage)
