"""A worker of a capacity search: asked by JSON, followed line by line, and judged when it ends."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.records import LOG_FILE
from bench.records.write import cannot_write
from bench.spec import Controls, SpecError
from bench.study.activity import cpu_seconds, is_computing
from bench.study.blame import Ending, Silence, kernel_kills
from bench.study.worker_log import LOG_LINES, WorkerLog, ask_for_stacks, last_word
from bench.study.worker_process import DONE, GAVE_UP, REFUSED, WorkerError, worker_environment

POLL_S = 0.5
OnLine = Callable[[str, Any], None]
"""Called with what a line is about and what it says."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    ending: Ending
    stage: str
    """The last that the worker said it entered."""

    @property
    def ended_well(self) -> bool:
        return self.ending.exit_code == DONE and self.ending.silence is None


def run_asked(
    module: str, request: Mapping[str, Any], controls: Controls, directory: Path, timeout_s: float, on_line: OnLine
) -> Heard:
    """Runs `python -m MODULE` on a request, in the environment that a worker of these controls has; what it complains
    of goes to the directory's log.

    Args:
        timeout_s: a worker that is silent for so long is ended.

    Raises:
        SpecError: the worker refused the request.
        WorkerError: it gave up for a reason that is no placement's.
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
            [sys.executable, "-X", "faulthandler", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env=worker_environment(controls),
        )
        try:
            stage, silence = _Follower(process, log, timeout_s, on_line).follow(request)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        ending = Ending(
            exit_code=process.returncode,
            silence=silence,
            killed_by_kernel=(kernel_kills() or 0) > (kills_before or 0),
            log_tail=log.tail(),
        )
    _raise_what_it_said(ending, directory)
    return Heard(ending=ending, stage=stage)


class _Follower:
    def __init__(self, process: subprocess.Popen[bytes], log: WorkerLog, timeout_s: float, on_line: OnLine) -> None:
        self._process = process
        self._log = log
        self._timeout_s = timeout_s
        self._on_line = on_line
        self._stage = "build"
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def follow(self, request: Mapping[str, Any]) -> tuple[str, Silence | None]:
        """Until the process has closed its output, or is ended for its silence."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(json.dumps(request).encode())
        last = time.monotonic()
        halfway: tuple[float, float | None] | None = None
        while True:
            try:
                line = self._lines.get(timeout=POLL_S)
            except queue.Empty:
                now = time.monotonic()
                if now - last > self._timeout_s:
                    return self._stage, self._silence(halfway)
                if halfway is None and now - last > self._timeout_s / 2:
                    halfway = now, cpu_seconds(self._process.pid)
                self._log.trim()
                continue
            if line is None:
                self._process.wait()
                return self._stage, None
            last, halfway = time.monotonic(), None
            self._hear(line)

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _hear(self, line: bytes) -> None:
        try:
            ((about, value),) = json.loads(line).items()
        except (ValueError, AttributeError):
            return  # torn by a kill
        if about == "stage":
            self._stage = str(value)
        else:
            self._on_line(about, value)

    def _silence(self, halfway: tuple[float, float | None] | None) -> Silence:
        pid, now = self._process.pid, time.monotonic()
        computed = halfway is None or is_computing(halfway[1], cpu_seconds(pid), now - halfway[0])
        silence = Silence(seconds=self._timeout_s, computed=computed, at=ask_for_stacks(self._process, self._log))
        self._process.kill()
        return silence


def _raise_what_it_said(ending: Ending, directory: Path) -> None:
    """An exit code alone may come from anybody's os._exit()."""
    word = last_word(ending.log_tail)
    if word is None:
        return
    if ending.exit_code == REFUSED:
        raise SpecError(word)
    if ending.exit_code == GAVE_UP:
        end = "\n".join(ending.log_tail[-LOG_LINES:])
        raise WorkerError(f"a worker gave up: {word}; {directory / LOG_FILE} ends:\n{end}")
