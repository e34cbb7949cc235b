"""The ledger of a real step on the CPU: the allocator's own events, as the profiler hears of them, joined by address.

So memory that only a kernel sees is there too. Blocks from before the recording are released unheard; therefore the
profiler watches one step before the one that is read (as `bench.measure.memory_cpu` does).
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench.trace.log import NOWHERE, REMAINDER, Storage
from bench.trace.recorder import Key, Tick

MARK = "bench.tick"
ALLOCATION = "[memory]"


class CpuLedger:
    """Enter `watching()` around both steps, and call `begin` between them."""

    def __init__(self) -> None:
        self._ticks = 0
        self._persistent: list[tuple[int, Storage]] = []
        self._profile: profile | None = None
        self._read: _Read | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as self._profile:
            yield

    def begin(self, persistent: Iterable[tuple[str, str, torch.Tensor]]) -> None:
        """`persistent`: (role, name, tensor) of what is there before the step that is read."""
        for role, name, tensor in persistent:
            key = self.key(tensor)
            if key is not None:
                self._persistent.append((key, _persistent(role, name, tensor)))
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
        pass

    def events(self, tick: Tick) -> int:
        return self._reading().before_tick[tick]

    def storage(self, key: Key, tick: Tick) -> int | None:
        return self._reading().owner(key, self.events(tick))

    def blocks(self) -> tuple[list[Storage], list[int]]:
        reading = self._reading()
        return reading.storages, reading.events

    def _reading(self) -> _Read:
        if self._read is None:
            if self._profile is None or self._profile.profiler is None:
                raise RuntimeError("ask only when the recording has ended")
            results = self._profile.profiler.kineto_results
            if results is None:
                raise RuntimeError("the profiler recorded nothing: this torch build has no kineto")
            self._read = _Read(results.experimental_event_tree(), self._persistent)
        return self._read


class _Read:
    """Events from the first tick on, with what was there before them."""

    def __init__(self, tree: Sequence[Any], persistent: Sequence[tuple[int, Storage]]) -> None:
        self.storages: list[Storage] = []
        self.events: list[int] = []
        self.before_tick: list[int] = []
        self._owners: dict[int, list[tuple[int, int]]] = {}
        """Address → (event of birth, storage), in order; -1 for what was there before."""
        alive: dict[int, int] = {}
        births: list[int | None] = []
        deaths: list[int | None] = []

        def add(storage: Storage, address: int, birth: int | None) -> None:
            alive[address] = len(self.storages)
            self._owners.setdefault(address, []).append((-1 if birth is None else birth, len(self.storages)))
            self.storages.append(storage)
            births.append(birth)
            deaths.append(None)

        older: dict[int, int] = {}
        begun = False
        for event in _sorted(tree):
            if event.name == MARK:
                if not begun:
                    begun = True
                    for address, storage in persistent:
                        if address not in alive:
                            add(storage, address, None)
                    for address, size in older.items():
                        if address not in alive:
                            add(_block(size, REMAINDER), address, None)
                self.before_tick.append(len(self.events))
                continue
            address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
            if not begun:
                if size > 0:
                    older[address] = size
                else:
                    older.pop(address, None)
            elif size > 0:
                add(_block(size, None), address, len(self.events))
                self.events.append(len(self.storages))
            elif address in alive:
                index = alive.pop(address)
                deaths[index] = len(self.events)
                self.events.append(-(index + 1))
        self.storages = [
            dataclasses.replace(storage, birth=birth, death=death)
            for storage, birth, death in zip(self.storages, births, deaths, strict=True)
        ]

    def owner(self, address: int, events: int) -> int | None:
        """The storage at an address once `events` events have happened."""
        owners = self._owners.get(address)
        if owners is None:
            return None
        position = bisect_right(owners, (events - 1, len(self.storages)))
        return owners[position - 1][1] if position else None


def _sorted(tree: Sequence[Any]) -> list[Any]:
    """Marks and allocator events in the order of time."""
    found: list[Any] = []
    waiting = list(tree)
    while waiting:
        event = waiting.pop()
        if event.name in (MARK, ALLOCATION):
            found.append(event)
        waiting.extend(event.children)
    return sorted(found, key=lambda event: event.start_time_ns)


def _block(size_bytes: int, role: str | None) -> Storage:
    return Storage(
        size_bytes=size_bytes, role=role, name="", shape=None, dtype=None, op=NOWHERE, birth=None, death=None
    )


def _persistent(role: str, name: str, tensor: torch.Tensor) -> Storage:
    return Storage(
        size_bytes=tensor.untyped_storage().nbytes(),
        role=role,
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        op=NOWHERE,
        birth=None,
        death=None,
    )
