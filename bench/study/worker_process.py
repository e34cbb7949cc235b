"""One worker process: started, followed through the records that it writes, and judged when it ends."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.records import (
    LOG_FILE,
    SAMPLES_FILE,
    ExecutionStarted,
    OutcomeRecord,
    Record,
    RecordWriter,
    Starting,
    Stopped,
    Work,
    parse_record,
)
from bench.records.write import CannotWriteError
from bench.spec import StudySpec
from bench.study.blame import blame, is_from_outside
from bench.study.progress import ProgressTracker
from bench.study.supervise import DONE, Watch, WorkerError, log_end, raise_what_it_said, run_watched

POLL_S = 0.2
WORKER = "bench.worker"
"""Module that measures."""
Attempt = tuple[str | None, str]
"""(placement, stage) at which a worker was killed."""


def run_worker(
    directory: Path, study: StudySpec, work: Work, tracker: ProgressTracker, killed: set[Attempt], module: str = WORKER
) -> None:
    """Runs one worker, which will do `work`, to its end. A placement that took it down gets an outcome, and the next
    worker skips it.

    Somebody may kill a worker without meaning its placement, so the first such signal is forgiven: it is noted in
    `killed`, and only the second at the same place is the placement's.

    Raises:
        WorkerError: the worker gave up, or the study directory cannot be written to.
        SpecError: the worker refused the study, such as on another device.
    """
    try:
        _run_worker(directory, study, work, tracker, killed, module)
    except CannotWriteError as error:
        raise WorkerError(str(error)) from error


def _run_worker(
    directory: Path, study: StudySpec, work: Work, tracker: ProgressTracker, killed: set[Attempt], module: str
) -> None:
    heard = _Heard()

    def follow(process: subprocess.Popen[bytes], watch: Watch) -> None:
        follower = _Follower(directory / SAMPLES_FILE)
        has_ended = False
        while not has_ended:
            has_ended = process.poll() is not None
            for record in follower.read():
                watch.heard()
                heard.note(record)
                tracker.see(record)
            if not has_ended and not (has_ended := watch.has_ended_it()):
                time.sleep(POLL_S)

    ending = run_watched(["-m", module, str(directory)], study.controls, directory, study.caps.sample_timeout_s, follow)
    if ending.exit_code == DONE and not heard.is_in_the_middle:
        return
    raise_what_it_said(ending, directory)
    if heard.is_settled:
        return  # it broke down on its way out, when all that it set out to find out was recorded
    at_work = heard.at_work
    if at_work is None and ending.silence is not None:
        raise WorkerError(f"nothing was heard of a worker for {ending.silence.seconds:g} s while it started")
    attempt = (at_work.placement, at_work.stage) if at_work else (None, "")
    if is_from_outside(ending) and attempt not in killed:
        killed.add(attempt)
        return
    if at_work is None:
        log = directory / LOG_FILE
        raise WorkerError(f"the worker ended with exit code {ending.exit_code}; {log} ends:\n{log_end(ending)}")
    _record_outcome(directory, at_work, work, blame(ending), tracker)


@dataclass
class _Heard:
    """What a worker's records say of it."""

    at_work: Starting | None = None
    """What it set out to do last; None once it is settled."""
    is_settled: bool = False
    """Whether it has recorded an end of what it set out to do last: an outcome, or that the execution stopped."""
    is_in_the_middle: bool = False
    """Whether the last it said is that it sets out to do something: no worker ends so of its own will."""

    def note(self, record: Record) -> None:
        self.is_in_the_middle = isinstance(record, Starting)
        if isinstance(record, ExecutionStarted):
            self.at_work, self.is_settled = None, False
        elif isinstance(record, Starting):
            self.at_work, self.is_settled = record, False
        elif isinstance(record, (OutcomeRecord, Stopped)):
            self.at_work, self.is_settled = None, True


class _Follower:
    """Whole lines that are appended to a file from now on, as records."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._torn = b""

    def read(self) -> Iterator[Record]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return
        self._position += len(data)
        *lines, self._torn = (self._torn + data).split(b"\n")
        for line in lines:
            record = parse_record(line) if line.strip() else None
            if record:
                yield record


def _record_outcome(
    directory: Path, last: Starting, work: Work, outcome_and_reason: tuple[str, str], tracker: ProgressTracker
) -> None:
    outcome, reason = outcome_and_reason
    to_blame = [text for text in work.placements if text in work.missing and last.placement in (None, text)]
    if last.placement is not None and last.placement not in work.placements:
        to_blame = [last.placement]  # a twin that the study has only once it is audited
    if not to_blame:
        raise WorkerError(f"{last.placement} was measured before and now fails at {last.stage}: {reason}")
    writer = RecordWriter(directory)
    for placement in to_blame:
        record = OutcomeRecord(
            execution=last.execution,
            process=last.process,
            unix_time_s=round(time.time(), 3),
            placement=placement,
            outcome=outcome,
            reason=f"{reason} (stage {last.stage})",
            stage=last.stage,
        )
        writer.append(record)
        tracker.see(record)
    writer.close()
