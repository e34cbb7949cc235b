"""One worker process: started, followed through the records that it writes, and judged when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.records import (
    LOG_FILE,
    SAMPLES_FILE,
    ExecutionStarted,
    OutcomeRecord,
    Record,
    RecordWriter,
    Starting,
    Work,
    parse_record,
)
from bench.spec import Controls, SpecError, StudySpec
from bench.study.progress import ProgressTracker

POLL_S = 0.2
REQUEST_WRONG = 2
LOG_LINES = 15
PROFILER_NOISE = "USDT:"
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
    allocator = {name: str(value) for name, value in controls.device.allocator.items()}
    return {**os.environ, **QUIET, **allocator, "BENCH_PARENT_PID": str(os.getpid())}


Attempt = tuple[str | None, str]
"""(placement, stage) at which a worker was killed."""


def run_worker(directory: Path, study: StudySpec, work: Work, tracker: ProgressTracker, killed: set[Attempt]) -> None:
    """Runs one worker, which will do `work`, to its end. A placement that took it down gets an outcome, and the next
    worker skips it.

    Somebody may kill a worker without meaning its placement, so the first SIGKILL is forgiven: it is noted in `killed`,
    and only the second at the same place is the placement's.

    Raises:
        WorkerError: the worker gave up.
        SpecError: the worker refused the study, such as on another device.
    """
    killed_before = _kernel_kills()
    with (directory / LOG_FILE).open("ab") as log:
        log_start = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=worker_environment(study.controls),
        )
        try:
            last, timed_out = _follow(process, directory, study.caps.sample_timeout_s, tracker)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode == 0:
        return
    log_end = _log_end(directory, log_start)
    if process.returncode == REQUEST_WRONG:
        raise SpecError(log_end.splitlines()[-1].removeprefix("bench.worker: ") if log_end else "the worker refused")
    by_kernel = _kernel_kills() > killed_before
    attempt = (last.placement, last.stage) if last else (None, "")
    if process.returncode == -signal.SIGKILL and not (timed_out or by_kernel or attempt in killed):
        killed.add(attempt)
        return
    blame = _blame(process.returncode, timed_out, by_kernel, study.caps.sample_timeout_s)
    if timed_out and last is None:
        raise WorkerError(f"nothing was heard of a worker for {study.caps.sample_timeout_s:g} s while it started")
    if blame is None or last is None:
        raise WorkerError(
            f"the worker ended with exit code {process.returncode}; {directory / LOG_FILE} ends:\n{log_end}"
        )
    _record_outcome(directory, last, work, blame, tracker)


def _follow(
    process: subprocess.Popen[bytes], directory: Path, timeout_s: float, tracker: ProgressTracker
) -> tuple[Starting | None, bool]:
    """Reads records as they come until the process ends or is silent for too long.

    Returns:
        The last thing it set out to do, and whether it was killed for its silence.
    """
    last: Starting | None = None
    follower = _Follower(directory / SAMPLES_FILE)
    heard = time.monotonic()
    while True:
        ended = process.poll() is not None
        for record in follower.read():
            heard = time.monotonic()
            if isinstance(record, ExecutionStarted):
                last = None
            if isinstance(record, Starting):
                last = record
            tracker.see(record)
        if ended:
            return last, False
        if time.monotonic() - heard > timeout_s:
            process.kill()
            process.wait()
            return last, True
        time.sleep(POLL_S)


class _Follower:
    """Whole lines that are appended to a file from now on, as records."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._torn = b""

    def read(self) -> Iterator[Record]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._torn = (self._torn + data).split(b"\n")
        for line in lines:
            record = parse_record(line) if line.strip() else None
            if record:
                yield record


def _blame(code: int, timed_out: bool, by_kernel: bool, timeout_s: float) -> tuple[str, str] | None:
    """(outcome, reason) where the placement at work is to blame for the worker's end."""
    if timed_out:
        return "timeout", f"nothing was heard of it for {timeout_s:g} s"
    if code == -signal.SIGKILL and by_kernel:
        return "oom", "the kernel killed the worker: the machine's memory ran out"
    if code < 0:
        return "crashed", f"the worker died by {signal.Signals(-code).name}"
    return None


def _record_outcome(
    directory: Path, last: Starting, work: Work, blame: tuple[str, str], tracker: ProgressTracker
) -> None:
    outcome, reason = blame
    to_blame = [text for text in work.placements if text in work.missing and last.placement in (None, text)]
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


def _kernel_kills() -> int:
    """Processes of this cgroup that the kernel killed for want of memory."""
    try:
        events = Path("/sys/fs/cgroup/memory.events").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill ")), 0)


def _log_end(directory: Path, start: int) -> str:
    with (directory / LOG_FILE).open("rb") as log:
        log.seek(start)
        lines = log.read().decode(errors="replace").strip().splitlines()
    return "\n".join([line for line in lines if not line.startswith(PROFILER_NOISE)][-LOG_LINES:])
