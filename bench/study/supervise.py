"""A worker process watched to its end: what it inherits, how long it may be silent, what is said of how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.records import LOG_FILE
from bench.records.write import cannot_write
from bench.spec import Controls, SpecError, device_variables, uncontrolled
from bench.study.activity import cpu_seconds, is_computing
from bench.study.blame import Ending, Silence, kernel_kills
from bench.study.worker_log import LOG_LINES, WorkerLog, ask_for_stacks, last_word

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


class Watch:
    """Ends a process of which nothing is heard for too long, and keeps its log short."""

    def __init__(self, process: subprocess.Popen[bytes], log: WorkerLog, timeout_s: float) -> None:
        self._process = process
        self._log = log
        self._timeout_s = timeout_s
        self._last = time.monotonic()
        self._halfway: tuple[float, float | None] | None = None
        self.silence: Silence | None = None
        """For which the process was ended."""

    def heard(self) -> None:
        """Something was heard of the process."""
        self._last, self._halfway = time.monotonic(), None

    def has_ended_it(self) -> bool:
        """To be asked a few times a second while nothing is heard."""
        self._log.trim()
        pid, now = self._process.pid, time.monotonic()
        if now - self._last > self._timeout_s:
            before = self._halfway
            computed = before is None or is_computing(before[1], cpu_seconds(pid), now - before[0])
            at = ask_for_stacks(self._process, self._log)
            self.silence = Silence(seconds=self._timeout_s, computed=computed, at=at)
            self._process.kill()
        elif self._halfway is None and now - self._last > self._timeout_s / 2:
            self._halfway = now, cpu_seconds(pid)
        return self.silence is not None


def run_watched(
    command: Sequence[str],
    controls: Controls,
    directory: Path,
    timeout_s: float,
    follow: Callable[[subprocess.Popen[bytes], Watch], None],
    *,
    is_asked: bool = False,
) -> Ending:
    """Runs `python COMMAND` in the environment that a worker of these controls has, until `follow` returns. It does so
    when the process has ended, or the watch has ended it. What the process complains of goes to the directory's log.

    Args:
        timeout_s: a process of which nothing is heard for so long is ended.
        is_asked: the process reads its standard input, and answers `follow` on its standard output.

    Raises:
        CannotWriteError: the log cannot be written to.
    """
    kills_before = kernel_kills()
    try:
        file = (directory / LOG_FILE).open("ab")
    except OSError as error:
        raise cannot_write(directory / LOG_FILE, error) from error
    with file:
        log = WorkerLog(file, file.tell())
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE if is_asked else subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_asked else file,
            stderr=file,
            env=worker_environment(controls),
        )
        watch = Watch(process, log, timeout_s)
        try:
            follow(process, watch)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            log.trim()
        return Ending(
            exit_code=process.returncode,
            silence=watch.silence,
            killed_by_kernel=(kernel_kills() or 0) > (kills_before or 0),
            log_tail=log.tail(),
        )


def raise_what_it_said(ending: Ending, directory: Path) -> None:
    """Raises what a worker gave up with, if it did. An exit code alone may come from anybody's os._exit().

    Raises:
        SpecError: it refused what it was to do.
        WorkerError: it gave up for a reason that is no placement's.
    """
    word = last_word(ending.log_tail)
    if ending.exit_code == CANNOT_WRITE:
        raise WorkerError(word or f"{directory}: the worker could not write there; look for room on the disk")
    if ending.exit_code == REFUSED and word is not None:
        raise SpecError(word)
    if ending.exit_code == GAVE_UP and word is not None:
        raise WorkerError(f"the worker gave up: {word}; {directory / LOG_FILE} has more")


def log_end(ending: Ending) -> str:
    """The last lines of a worker's log, for an error."""
    return "\n".join(ending.log_tail[-LOG_LINES:])
