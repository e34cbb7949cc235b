"""The ledger of a step on fake tensors: a block is born as the first tensor on it is seen, and released as its storage
dies. What kernels take for themselves is predicted (`bench.trace.workspaces`), since fake kernels take nothing."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from bench.trace.log import NOWHERE, Storage
from bench.trace.recorder import Key, Tick, described

Workspace = Callable[[Any, Sequence[Any], dict[str, Any], Any], int]
"""(op, arguments, keyword arguments, result) → bytes that its kernel holds besides what it hands out."""


class FakeLedger:
    def __init__(
        self,
        device_type: str,
        persistent: Iterable[tuple[str, str, torch.Tensor]],
        workspace: Workspace | None = None,
    ) -> None:
        """`persistent`: (role, name, tensor) of what is there before the step."""
        self._device_type = device_type
        self._workspace = workspace
        self._storages: list[Storage] = []
        self._deaths: list[int | None] = []
        self._events: list[int] = []
        self._keys: dict[int, tuple[int, Any]] = {}
        for role, name, tensor in persistent:
            if tensor.device.type == device_type:
                self._known(tensor, role, name, persists=True)

    def tick(self) -> Tick:
        return len(self._events)

    def key(self, tensor: torch.Tensor) -> Key | None:
        if tensor.device.type != self._device_type or tensor.layout != torch.strided:
            return None
        return self._known(tensor, None, "", persists=False)

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        if self._workspace is None:
            return
        size = self._workspace(func, args, kwargs, result)
        if size:
            self.pulse(size)

    def pulse(self, size_bytes: int) -> None:
        """A block that comes and goes at once."""
        index = self.born(size_bytes)
        self.died(index)

    def born(self, size_bytes: int, role: str | None = None, name: str = "", persists: bool = False) -> int:
        index = len(self._storages)
        self._storages.append(
            Storage(
                size_bytes=size_bytes,
                role=role,
                name=name,
                shape=None,
                dtype=None,
                op=NOWHERE,
                birth=None if persists else len(self._events),
                death=None,
            )
        )
        self._deaths.append(None)
        if not persists:
            self._events.append(index + 1)
        return index

    def died(self, index: int) -> None:
        self._deaths[index] = len(self._events)
        self._events.append(-(index + 1))

    def events(self, tick: Tick) -> int:
        return tick

    def storage(self, key: Key, tick: Tick) -> int | None:
        return key

    def blocks(self) -> tuple[list[Storage], list[int]]:
        storages = [
            dataclasses.replace(storage, death=death)
            for storage, death in zip(self._storages, self._deaths, strict=True)
        ]
        return storages, list(self._events)

    def _known(self, tensor: torch.Tensor, role: str | None, name: str, *, persists: bool) -> int:
        storage = tensor.untyped_storage()
        identity = storage._cdata
        known = self._keys.get(identity)
        if known is not None:
            return known[0]
        index = self.born(storage.nbytes(), role, name, persists)
        if persists:
            self._storages[index] = described(self._storages[index], tensor)

        def die(_: Any, self: FakeLedger = self, identity: int = identity, index: int = index) -> None:
            del self._keys[identity]
            self.died(index)

        self._keys[identity] = (index, weakref.ref(storage, die))
        return index
