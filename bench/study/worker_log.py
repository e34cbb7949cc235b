"""What a worker printed: the end of it, its last word to the parent, the stacks that it was asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

LOG_LINES = 15
PROFILER_NOISE = "USDT:"
LAST_WORD = "bench.worker: "
"""What the worker itself says as it gives up begins so."""
MAX_BYTES = 16 * 2**20
"""A worker's share of the log. One that prints without end would fill the disk, and cost what is measured."""
KEPT_BYTES = 2**20
"""Of the beginning of a log that grew beyond that."""
TAIL_BYTES = 2**16
STACKS_WAIT_S = 3.0
POLL_S = 0.05

# faulthandler: "Current thread 0x… (most recent call first):", newest thread first, the main thread last.
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x\w+.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.+)$')


@dataclass
class WorkerLog:
    """The part of `log.txt` that one worker writes. The file is open for appending."""

    file: BinaryIO
    start: int

    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def trim(self) -> None:
        """Drops the end of a log that has grown too long; the worker goes on after what is kept."""
        size = self.size()
        if size - self.start > MAX_BYTES:
            os.ftruncate(self.file.fileno(), self.start + KEPT_BYTES)
            dropped = size - self.start - KEPT_BYTES
            self.file.write(f"\nbench: {dropped} bytes that the worker printed are left out\n".encode())
            self.file.flush()

    def tail(self, since: int | None = None) -> tuple[str, ...]:
        """Its last lines, from byte `since` of the file at the earliest; not all of a long log is read."""
        with Path(self.file.name).open("rb") as log:
            log.seek(max(self.start, since or 0, self.size() - TAIL_BYTES))
            lines = log.read(TAIL_BYTES).decode(errors="replace").splitlines()
        return tuple(line for line in lines if line.strip() and not line.startswith(PROFILER_NOISE))


def last_word(log_tail: Sequence[str]) -> str | None:
    """What the worker said as it gave up; None where it ended without a word."""
    said = [line for line in log_tail[-LOG_LINES:] if line.startswith(LAST_WORD)]
    return said[-1].removeprefix(LAST_WORD) if said else None


def ask_for_stacks(process: subprocess.Popen[bytes], log: WorkerLog) -> str | None:
    """Has a worker write its Python stacks into its log; returns the innermost line of its main thread.

    None where it does not answer: a stopped process, or one that has not come so far as to listen (which the signal
    ends).
    """
    before = log.size()
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + STACKS_WAIT_S
    size = before
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(POLL_S)
        grown, size = log.size() > size, log.size()
        if size > before and not grown:
            break
    return innermost_line(log.tail(before), "main")


def innermost_line(lines: Sequence[str], thread: str) -> str | None:
    """`function (folder/file.py:12)` of the innermost frame in faulthandler's last dump.

    Args:
        thread: `main`, or `current`: the one that a fatal signal hit.
    """
    heads = [number for number, line in enumerate(lines) if _THREAD.match(line)]
    if not heads:
        return None
    current = [number for number in heads if lines[number].startswith("Current")]
    head = current[-1] if thread == "current" and current else heads[-1]
    frame = _FRAME.match(lines[head + 1]) if head + 1 < len(lines) else None
    if frame is None:
        return None
    return f"{frame['function']} ({'/'.join(Path(frame['path']).parts[-2:])}:{frame['line']})"
