"""The processes of a study: the parent and what it started, their ids and CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

RESCAN_S = 5.0
"""Seconds between two searches for descendants once there are some: a search reads one file of each process of the
machine."""


class Family:
    """A process and all below it.

    CPU time of a process that has ended and was waited for is in its parent's; the sum never loses any.
    """

    def __init__(
        self, pid: int | None = None, root: Path = Path("/"), now: Callable[[], float] = time.monotonic
    ) -> None:
        self._pid = os.getpid() if pid is None else pid
        self._proc = root / "proc"
        self._now = now
        self._members: tuple[int, ...] = (self._pid,)
        self._scanned = -float("inf")

    def pids(self) -> tuple[int, ...]:
        if len(self._members) == 1 or self._now() - self._scanned >= RESCAN_S:
            self._scan()
        return self._members

    def cpu_ticks(self) -> int:
        """User and system time of all members, and of their children that have ended."""
        total = 0
        for pid in self.pids():
            ticks = self._stat(pid)
            if ticks is None:
                self._scanned = -float("inf")  # it has ended: its time is now its parent's
                continue
            total += sum(map(int, ticks[11:15]))
        return total

    def _scan(self) -> None:
        self._scanned = self._now()
        children: dict[int, list[int]] = {}
        for folder in self._proc.iterdir():
            if folder.name.isdigit():
                fields = self._stat(int(folder.name))
                if fields is not None:
                    children.setdefault(int(fields[1]), []).append(int(folder.name))
        members = [self._pid]
        for pid in members:
            members += children.get(pid, [])
        self._members = tuple(members)

    def _stat(self, pid: int) -> list[str] | None:
        """Fields of `/proc/PID/stat` from the third on, or None where the process is gone. The second, the name, may
        hold blanks and parentheses."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        return text.rpartition(")")[2].split()
