"""How much memory a probe's process may take, so that a wrong forecast cannot take the machine down.

On a GPU the caching allocator itself is held to the limit, and an out-of-memory is real, reserved blocks and
fragmentation included. On the CPU the peak is judged by the allocator's events, so the process gets more: the C
allocator's fragmentation and the recorder of events are not the step's, and where the limit cut through them a step
that fits would be said not to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.capacity.words import mib_text
from bench.device.proc import cgroup_folders, read_number, read_pairs
from bench.spec import Controls

SLACK_SHARE, SLACK_BYTES = 2.0, 512 * 2**20
"""Beyond the limit, whichever is more: the process's, on the CPU. GPT-2 steps with a peak of 3 GiB took a data segment
of over 6 GiB: the C heap keeps what large blocks leave behind."""
KEPT_FREE_BYTES = 256 * 2**20
"""Of the machine's memory, for whatever else runs."""
LIBRARY_BYTES = 512 * 2**20
"""That a process takes before it builds its step."""


@dataclass(frozen=True, kw_only=True)
class Room:
    bound_bytes: int | None
    """That the step's process is held to; None where it is not."""
    is_cut: bool = False
    """Whether the machine has less free than the process should get: running out then says nothing of the limit."""
    refused: str = ""
    """Why no probe may start; empty where one may."""


def room_for(controls: Controls, usable_bytes: int, forecast_bytes: int | None, root: Path = Path("/")) -> Room:
    """
    Args:
        forecast_bytes: of the step to probe; None where it is not known.
    """
    if controls.device.kind == "cuda":
        return Room(bound_bytes=usable_bytes)
    wanted = usable_bytes + max(SLACK_BYTES, int(SLACK_SHARE * usable_bytes))
    free = free_bytes(root)
    if free is None:
        return Room(bound_bytes=wanted)
    there = free - KEPT_FREE_BYTES - LIBRARY_BYTES
    if there <= 0 or (forecast_bytes is not None and forecast_bytes > there):
        needed = "what it needs is unknown"
        if forecast_bytes is not None:
            needed = f"it is forecast to take {mib_text(forecast_bytes)}"
        to_spare = f"this machine has {mib_text(max(0, there))} to spare for it"
        return Room(bound_bytes=None, refused=f"{needed}, and {to_spare}")
    return Room(bound_bytes=min(wanted, there), is_cut=there < wanted)


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that is available on this machine and in the cgroups around this process; None where it cannot be read."""
    sizes = dict(read_pairs(root / "proc/meminfo"))
    available = (sizes.get("MemAvailable") or "").partition(" ")[0]
    found = [int(available) * 1024] if available.isdigit() else []
    for folder in cgroup_folders(root):
        limit, used = read_number(folder / "memory.max"), read_number(folder / "memory.current")
        if limit is not None and used is not None:
            found.append(limit - used + _reclaimable(folder))
    return max(0, min(found)) if found else None


def _reclaimable(folder: Path) -> int:
    """Cached files count as used, and are given back when memory is wanted."""
    try:
        pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return next((int(value) for name, value in pairs if name == "inactive_file"), 0)
    except (OSError, ValueError):
        return 0
