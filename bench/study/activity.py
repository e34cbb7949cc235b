"""Does a silent process compute, or does it wait? Its CPU time says.

The parent looks at the last half of a silence alone, so that a process that computed for a while and then waited for
ever is seen to wait. On a GPU, a host that waits for its stream spins by default and so counts as computing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

PROC = Path("/proc")
BUSY_SHARE = 0.05
"""CPU seconds a second of silence above which a process computes. One that waits takes none, bar a poll now and then;
one that computes takes a whole core, or on a crowded machine its share of one."""
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of /proc/PID/stat after the command's name: the parent, then utime, stime, cutime and cstime (proc(5))."""


def cpu_seconds(pid: int) -> float | None:
    """CPU time that the process, all its threads and all its descendants have taken, those included that have ended and
    been waited for; None where it cannot be known.
    """
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        one = int(path.parent.name)
        children[int(fields[_PARENT])].append(one)
        ticks[one] = sum(map(int, fields[_TIMES]))
    if pid not in ticks:
        return None
    family = [pid]
    for one in family:
        family += children[one]
    return sum(ticks[one] for one in family) / os.sysconf("SC_CLK_TCK")


def is_computing(cpu_before_s: float | None, cpu_after_s: float | None, wall_s: float) -> bool:
    """Whether a process computed during `wall_s` seconds. Where its CPU time is unknown it gets the benefit: True."""
    if cpu_before_s is None or cpu_after_s is None:
        return True
    return cpu_after_s - cpu_before_s >= BUSY_SHARE * wall_s
