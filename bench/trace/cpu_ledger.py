"""The ledger of a real step on the CPU: the allocator's own events, as the profiler hears of them, joined by address.

So memory that only a kernel sees is there too. Blocks from before the recording are released unheard; therefore the
profiler watches one step before the one that is read (as `bench.measure.memory_cpu` does).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench.measure.memory_cpu import allocator_events
from bench.trace.blocks import Blocks, block
from bench.trace.log import REMAINDER, Storage
from bench.trace.recorder import Key, Tick, described

MARK = "bench.tick"


class CpuLedger:
    """Enter `watching()` around both steps, and call `begin` between them."""

    def __init__(self) -> None:
        self._ticks = 0
        self._persistent: list[tuple[Key, Storage]] = []
        self._profile: profile | None = None
        self._blocks: Blocks | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as self._profile:
            yield

    def begin(self, persistent: Iterable[tuple[str, str, torch.Tensor]]) -> None:
        """`persistent`: (role, name, tensor) of what is there before the step that is read."""
        for role, name, tensor in persistent:
            key = self.key(tensor)
            if key is not None:
                size = tensor.untyped_storage().nbytes()
                self._persistent.append((key, described(block(size, role=role, name=name), tensor)))
        self.tick()

    def tick(self) -> Tick:
        with torch._C._profiler._RecordFunctionFast(MARK):
            pass
        self._ticks += 1
        return self._ticks - 1

    def key(self, tensor: torch.Tensor) -> Key | None:
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return None
        return tensor.untyped_storage().data_ptr() or None

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        pass  # what its kernel took is among the events

    def events(self, tick: Tick) -> int:
        return self._read().before_tick[tick]

    def storage(self, key: Key, tick: Tick) -> int | None:
        return self._read().owner(key, self.events(tick))

    def blocks(self) -> tuple[list[Storage], list[int]]:
        read = self._read()
        return read.storages(), read.events

    def _read(self) -> Blocks:
        if self._blocks is None:
            if self._profile is None:
                raise RuntimeError("nothing was watched")
            self._blocks = _blocks(allocator_events(self._profile, MARK), self._persistent)
        return self._blocks


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
