"""Why a worker ended, and whether the placement at work is to blame: (outcome, reason) from what is left of it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from bench.study.worker_log import innermost_line

FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals that a person or a scheduler sends; nothing in a step raises them by itself."""
FATAL = "Fatal Python error"
"""How faulthandler's dump of a crash begins."""
NUM_LAST_WORDS = 3
CGROUPS, VM_STATISTICS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/vmstat"), Path("/proc/self/cgroup")
_NATIVE_OUT_OF_MEMORY = re.compile(r"std::bad_alloc|\bout of memory\b|cannot allocate memory", re.IGNORECASE)
"""As native code says it before it ends the process: C++'s terminate, libgomp, oneMKL."""


@dataclass(frozen=True, kw_only=True)
class Silence:
    """A worker that was heard of no more, and was ended for it."""

    seconds: float
    computed: bool
    """Whether it took CPU time until its end."""
    at: str | None
    """The innermost line of its main thread, where it could still be asked."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a worker ended, with a placement at work."""

    exit_code: int
    """Negative: the signal that ended it."""
    silence: Silence | None = None
    killed_by_kernel: bool = False
    """Whether the kernel killed a process for want of memory meanwhile."""
    log_tail: tuple[str, ...] = ()


def blame(ending: Ending) -> tuple[str, str]:
    if ending.silence is not None:
        return _silent(ending.silence)
    if ending.exit_code == -signal.SIGKILL and ending.killed_by_kernel:
        return "oom", "the kernel killed the worker: the machine's memory ran out"
    last_words = _last_words(ending.log_tail)
    ended_itself = ending.exit_code == -signal.SIGABRT or ending.exit_code > 0
    native = next((line for line in reversed(last_words) if _NATIVE_OUT_OF_MEMORY.search(line)), None)
    if native is not None and ended_itself:
        return "oom", f"memory ran out in native code: {native}"
    if ending.exit_code < 0:
        where = innermost_line(ending.log_tail, "current")
        words = last_words[-1] if ended_itself and last_words else None
        at, said = f" in {where}" if where else "", f": {words}" if words else ""
        return "crashed", f"the worker died by {_signal_name(-ending.exit_code)}{at}{said}"
    return "crashed", f"something ended the worker with exit code {ending.exit_code}, as os._exit() and exit() do"


def is_from_outside(ending: Ending) -> bool:
    """Whether somebody may have ended the worker without meaning its placement."""
    return ending.silence is None and not ending.killed_by_kernel and -ending.exit_code in FROM_OUTSIDE


def _silent(silence: Silence) -> tuple[str, str]:
    at = f"; it was in {silence.at}" if silence.at else ""
    if silence.computed:
        return "timeout", f"nothing was heard of it for {silence.seconds:g} s, though it computed{at}"
    return "hung", f"nothing was heard of it for {silence.seconds:g} s, and it took no CPU time: it waited{at}"


def _last_words(log_tail: tuple[str, ...]) -> list[str]:
    """What native code said right before the end, and before Python's dump of stacks where there is one."""
    fatal = [number for number, line in enumerate(log_tail) if line.startswith(FATAL)]
    return [line.strip() for line in log_tail[: fatal[-1] if fatal else None]][-NUM_LAST_WORDS:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def kernel_kills(
    cgroups: Path = CGROUPS, own_cgroup: Path = OWN_CGROUP, vm_statistics: Path = VM_STATISTICS
) -> int | None:
    """Processes that the kernel has killed for want of memory: in this cgroup, version 2 or 1, else on this machine.
    None where it does not say."""
    own = {name: path for _, name, path in _cgroup_entries(own_cgroup)}
    unified, memory = own.get("", "/").lstrip("/"), own.get("memory", "/").lstrip("/")
    for path in (
        cgroups / unified / "memory.events",
        cgroups / "memory.events",
        cgroups / "memory" / memory / "memory.oom_control",
        cgroups / "memory" / "memory.oom_control",
        vm_statistics,
    ):
        try:
            counts = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if "oom_kill" in counts:
            return int(counts["oom_kill"])
    return None


def _cgroup_entries(path: Path) -> list[tuple[str, str, str]]:
    """(hierarchy, controllers, path) of each line of /proc/self/cgroup (cgroups(7))."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    entries = (line.split(":", 2) for line in lines)
    return [(entry[0], entry[1], entry[2]) for entry in entries if len(entry) == 3]
