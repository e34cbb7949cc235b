"""The ledger of a real step on CUDA: the caching allocator's events are its own history.

Sizes are those requested: the history tells no others. What rounding and blocks that could not be split take on top
is the difference between the peaks of allocated and of requested bytes, which the allocator counts itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from bench.trace.blocks import Blocks, block
from bench.trace.ledger import AllocatorLedger, Key, Tick
from bench.trace.log import LIBRARY, Storage

MAX_EVENTS = 1_000_000
"""Of the history. A step of 100 blocks has some 50,000."""
ALLOCATED, RELEASED = "alloc", "free_requested"
"""Actions that the allocator's count of allocated bytes follows (torch.cuda.memory._snapshot)."""


class CudaLedger(AllocatorLedger):
    """Enter `watching()` around the step, after one that has warmed workspaces, and call `begin` first of all in it."""

    device_type = "cuda"

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._index = device.index if device.index is not None else torch.cuda.current_device()
        self._ticks: list[int] = []
        self._before: list[tuple[Key, int]] = []
        self._entries: list[Mapping[str, Any]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        torch.cuda.synchronize(self._device)
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=MAX_EVENTS, clear_history=True)
        try:
            yield
            torch.cuda.synchronize(self._device)
            self._entries = torch.cuda.memory._snapshot(self._device)["device_traces"][self._index]
        finally:
            torch.cuda.memory._record_memory_history(None)

    def begin(self, persistent: Iterable[tuple[str, str, torch.Tensor]]) -> None:
        self._before = list(active_blocks(torch.cuda.memory._snapshot(self._device)["segments"], self._index))
        super().begin(persistent)

    def tick(self) -> Tick:
        """Host-side counters alone; the device is not asked for anything."""
        counts = torch._C._cuda_memoryStats(self._index)["allocation"]["all"]
        self._ticks.append(counts["allocated"] + counts["freed"])
        return len(self._ticks) - 1

    def _joined(self) -> Blocks:
        return blocks_of(self._entries, self._ticks, self._before, self._persistent)


def active_blocks(segments: Sequence[Mapping[str, Any]], device: int) -> Iterator[tuple[int, int]]:
    """(address, requested bytes) of the blocks in use, from a snapshot's segments."""
    for segment in segments:
        if segment.get("device", device) != device:
            continue
        address = segment["address"]
        for part in segment["blocks"]:
            if part["state"] == "active_allocated":
                yield part.get("address", address), part.get("requested_size", part["size"])
            address += part["size"]


def blocks_of(
    entries: Sequence[Mapping[str, Any]],
    ticks: Sequence[int],
    before: Sequence[tuple[int, int]],
    persistent: Sequence[tuple[int, Storage]],
) -> Blocks:
    """Joins a history with the step.

    Args:
        entries: of the device's trace, oldest first; it may begin before the first tick.
        ticks: how many allocations and releases the allocator had counted at each tick.
        before: (address, bytes) of all blocks in use at the first tick.
        persistent: what is known of some of them.

    Raises:
        RuntimeError: the history has lost events, or counts other ones than the allocator does.
    """
    blocks = Blocks()
    known = dict(reversed(list(persistent)))
    for address, size in before:
        blocks.was_there(address, known.get(address) or block(size, role=LIBRARY))
    # What the history has from before the first tick is among `before` already.
    changes = [entry for entry in entries if entry["action"] in (ALLOCATED, RELEASED)][_events_before(entries) :]
    counted = ticks[-1] - ticks[0]
    if len(changes) < counted:
        raise RuntimeError(
            f"the allocator counted {counted} events in the step, its history has {len(changes)}; "
            f"raise bench.trace.cuda_ledger.MAX_EVENTS, now {MAX_EVENTS}"
        )
    next_tick = 0
    for number in range(len(changes) + 1):
        while next_tick < len(ticks) and ticks[next_tick] - ticks[0] <= number:
            blocks.tick()
            next_tick += 1
        if number == len(changes):
            break
        entry = changes[number]
        if entry["action"] == ALLOCATED:
            blocks.allocated(entry["addr"], entry["size"])
        else:
            blocks.released(entry["addr"])
    return blocks


def _events_before(entries: Sequence[Mapping[str, Any]]) -> int:
    """Events before the snapshot that `begin` took, which the history marks."""
    count = 0
    for entry in entries:
        if entry["action"] == "snapshot":
            return count
        count += entry["action"] in (ALLOCATED, RELEASED)
    return 0
