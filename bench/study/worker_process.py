"""One worker process: started, followed through the records that it writes, and judged when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
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
from bench.records.write import CannotWriteError, cannot_write
from bench.spec import Controls, SpecError, StudySpec, device_variables, uncontrolled
from bench.study.activity import cpu_seconds, is_computing
from bench.study.blame import Ending, Silence, blame, is_from_outside, kernel_kills
from bench.study.progress import ProgressTracker
from bench.study.worker_log import LOG_LINES, WorkerLog, ask_for_stacks, last_word

POLL_S = 0.2
DONE, GAVE_UP, REFUSED, CANNOT_WRITE = 0, 1, 2, os.EX_IOERR
"""Exit codes of a worker that ended by its own will; with the middle two it says why, in its log."""
QUIET: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Nothing in a worker reaches for the network."""


class WorkerError(RuntimeError):
    """A worker that gave up for a reason that is no placement's: the end of its log, and where the rest is."""


def worker_environment(controls: Controls) -> dict[str, str]:
    """Ours, less what would change a step unseen by the control key, and with what the controls set."""
    left_out = uncontrolled(controls.device, os.environ)
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**inherited, **QUIET, **device_variables(controls.device), "BENCH_PARENT_PID": str(os.getpid())}


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
    kills_before = kernel_kills()
    try:
        file = (directory / LOG_FILE).open("ab")
    except OSError as error:
        raise cannot_write(directory / LOG_FILE, error) from error
    with file:
        log = WorkerLog(file, file.tell())
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=worker_environment(study.controls),
        )
        try:
            heard = _follow(process, log, directory, study.caps.sample_timeout_s, tracker)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        ending = Ending(
            exit_code=process.returncode,
            silence=heard.silence,
            killed_by_kernel=(kernel_kills() or 0) > (kills_before or 0),
            log_tail=log.tail(),
        )
    if ending.exit_code == DONE and not heard.is_in_the_middle:
        return
    _raise_what_it_said(ending, directory)
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
        end = "\n".join(ending.log_tail[-LOG_LINES:])
        raise WorkerError(f"the worker ended with exit code {ending.exit_code}; {file.name} ends:\n{end}")
    _record_outcome(directory, at_work, work, blame(ending), tracker)


def _raise_what_it_said(ending: Ending, directory: Path) -> None:
    """Raises what the worker gave up with, if it did. An exit code alone may come from anybody's os._exit()."""
    word = last_word(ending.log_tail)
    if ending.exit_code == CANNOT_WRITE:
        raise WorkerError(word or f"{directory}: the worker could not write there; look for room on the disk")
    if ending.exit_code == REFUSED and word is not None:
        raise SpecError(word)
    if ending.exit_code == GAVE_UP and word is not None:
        raise WorkerError(f"the worker gave up: {word}; {directory / LOG_FILE} has more")


@dataclass
class _Heard:
    """What a worker's records say of it."""

    at_work: Starting | None = None
    """What it set out to do last; None once it is settled."""
    is_settled: bool = False
    """Whether it has recorded an end of what it set out to do last: an outcome, or that the execution stopped."""
    is_in_the_middle: bool = False
    """Whether the last it said is that it sets out to do something: no worker ends so of its own will."""
    silence: Silence | None = None

    def note(self, record: Record) -> None:
        self.is_in_the_middle = isinstance(record, Starting)
        if isinstance(record, ExecutionStarted):
            self.at_work, self.is_settled = None, False
        elif isinstance(record, Starting):
            self.at_work, self.is_settled = record, False
        elif isinstance(record, (OutcomeRecord, Stopped)):
            self.at_work, self.is_settled = None, True


def _follow(
    process: subprocess.Popen[bytes], log: WorkerLog, directory: Path, timeout_s: float, tracker: ProgressTracker
) -> _Heard:
    """Reads records as they come until the process ends, or ends it when it is silent for too long."""
    heard = _Heard()
    follower = _Follower(directory / SAMPLES_FILE)
    last = time.monotonic()
    halfway: tuple[float, float | None] | None = None
    while True:
        ended = process.poll() is not None
        for record in follower.read():
            last, halfway = time.monotonic(), None
            heard.note(record)
            tracker.see(record)
        log.trim()
        if ended:
            return heard
        now = time.monotonic()
        if now - last > timeout_s:
            computed = halfway is None or is_computing(halfway[1], cpu_seconds(process.pid), now - halfway[0])
            heard.silence = Silence(seconds=timeout_s, computed=computed, at=ask_for_stacks(process, log))
            process.kill()
            process.wait()
            return heard
        if halfway is None and now - last > timeout_s / 2:
            halfway = now, cpu_seconds(process.pid)
        time.sleep(POLL_S)


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
