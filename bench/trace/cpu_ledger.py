"""The ledger of a real step on the CPU: the allocator's events are those that the profiler hears of.

Blocks from before the recording are released unheard; therefore the
profiler watches one step before the one that is read (as `bench.measure.memory_cpu` does).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench.measure.memory_cpu import allocator_events
from bench.trace.blocks import Blocks, block
from bench.trace.ledger import AllocatorLedger, Key, Tick
from bench.trace.log import REMAINDER, Storage

MARK = "bench.tick"


class CpuLedger(AllocatorLedger):
    """Enter `watching()` around both steps, and call `begin` between them."""

    device_type = "cpu"

    def __init__(self) -> None:
        super().__init__()
        self._ticks = 0
        self._profile: profile | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as self._profile:
            yield

    def tick(self) -> Tick:
        with torch._C._profiler._RecordFunctionFast(MARK):
            pass
        self._ticks += 1
        return self._ticks - 1

    def _joined(self) -> Blocks:
        if self._profile is None:
            raise RuntimeError("nothing was watched")
        return _blocks(allocator_events(self._profile, MARK), self._persistent)


def _blocks(recorded: Sequence[Any], persistent: Sequence[tuple[Key, Storage]]) -> Blocks:
    """Events from the first tick on, with what was there before them."""
    blocks = Blocks()
    older: dict[int, int] = {}
    begun = False
    for event in recorded:
        if event.name == MARK:
            if not begun:
                begun = True
                for address, storage in persistent:
                    blocks.was_there(address, storage)
                for address, size in older.items():
                    blocks.was_there(address, block(size, role=REMAINDER))
            blocks.tick()
            continue
        address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        if begun:
            if size > 0:
                blocks.allocated(address, size)
            else:
                blocks.released(address)
        elif size > 0:
            older[address] = size
        else:
            older.pop(address, None)
    return blocks
