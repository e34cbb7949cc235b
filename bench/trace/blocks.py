"""Blocks of memory by address: what an allocator's events say of who lay where, and when."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right

from bench.trace.log import NOWHERE, Storage


class Blocks:
    """Tell it what was there, then every event in order; then ask."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.before_tick: list[int] = []
        """Events before each tick."""
        self._storages: list[Storage] = []
        self._alive: dict[int, int] = {}
        self._deaths: dict[int, int] = {}
        self._owners: dict[int, list[tuple[int, int]]] = {}
        """Address → (event of birth, storage), in order; -1 for what was there before."""

    def was_there(self, address: int, storage: Storage) -> None:
        """A block from before the first event; another at the same address is the same."""
        if address not in self._alive:
            self._add(address, storage, -1)

    def tick(self) -> None:
        self.before_tick.append(len(self.events))

    def allocated(self, address: int, size_bytes: int) -> None:
        index = self._add(address, block(size_bytes, birth=len(self.events)), len(self.events))
        self.events.append(index + 1)

    def released(self, address: int) -> None:
        """Nothing happens where no block is known there: it is older than the recording, and counted nowhere."""
        index = self._alive.pop(address, None)
        if index is not None:
            self._deaths[index] = len(self.events)
            self.events.append(-(index + 1))

    def storages(self) -> list[Storage]:
        return [
            dataclasses.replace(storage, death=self._deaths.get(index)) for index, storage in enumerate(self._storages)
        ]

    def owner(self, address: int, events: int) -> int | None:
        """The storage that lies at an address once `events` events have happened; None where none is known. Memory of
        other origin may lie where a released block lay."""
        owners = self._owners.get(address, [])
        position = bisect_right(owners, (events - 1, len(self._storages)))
        if not position:
            return None
        index = owners[position - 1][1]
        return index if self._deaths.get(index, events) >= events else None

    def _add(self, address: int, storage: Storage, birth: int) -> int:
        index = len(self._storages)
        self._alive[address] = index
        self._owners.setdefault(address, []).append((birth, index))
        self._storages.append(storage)
        return index


def block(size_bytes: int, *, role: str | None = None, name: str = "", birth: int | None = None) -> Storage:
    """A storage of which no more is known yet."""
    return Storage(
        size_bytes=size_bytes, role=role, name=name, shape=None, dtype=None, op=NOWHERE, birth=birth, death=None
    )
