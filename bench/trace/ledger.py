"""What is allocated in a step, and when: a recorder asks as the step runs, and reads once it has ended."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch

from bench.trace.blocks import Blocks, block
from bench.trace.log import Storage

Tick = int
"""A moment of the step, as a ledger numbers them."""
Key = int
"""A block of memory, as a ledger names it; good for the moment at which it was asked for."""


class Ledger(Protocol):
    def tick(self) -> Tick:
        """The present moment."""

    def key(self, tensor: torch.Tensor) -> Key | None:
        """The block that a tensor lies in, or None where it lies on another device or has no memory."""

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """`func` has just run; a ledger that sees no allocator predicts what its kernel took for itself."""

    def events(self, tick: Tick) -> int:
        """Events before a moment. Only once the step has ended."""

    def storage(self, key: Key, tick: Tick) -> int | None:
        """The storage that `key` stood for at a moment. Only once the step has ended."""

    def blocks(self) -> tuple[list[Storage], list[int]]:
        """All storages, their op not known yet, and the events. Only once the step has ended."""


class AllocatorLedger(ABC):
    """The ledger of a real step: the allocator's own events, joined with the step by address. So memory that only a
    kernel sees is there too."""

    device_type: str

    def __init__(self) -> None:
        self._persistent: list[tuple[Key, Storage]] = []
        self._blocks: Blocks | None = None

    def begin(self, persistent: Iterable[tuple[str, str, torch.Tensor]]) -> None:
        """Call it right before the step that is read.

        Args:
            persistent: (role, name, tensor) of what is there then.
        """
        for role, name, tensor in persistent:
            key = self.key(tensor)
            if key is not None:
                size = tensor.untyped_storage().nbytes()
                self._persistent.append((key, described(block(size, role=role, name=name), tensor)))
        self.tick()

    @abstractmethod
    def tick(self) -> Tick: ...

    def key(self, tensor: torch.Tensor) -> Key | None:
        if tensor.device.type != self.device_type or tensor.layout != torch.strided:
            return None
        return tensor.untyped_storage().data_ptr() or None

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        return  # what its kernel took is among the events

    def events(self, tick: Tick) -> int:
        return self._read().before_tick[tick]

    def storage(self, key: Key, tick: Tick) -> int | None:
        return self._read().owner(key, self.events(tick))

    def blocks(self) -> tuple[list[Storage], list[int]]:
        read = self._read()
        return read.storages(), read.events

    @abstractmethod
    def _joined(self) -> Blocks:
        """Events from the first tick on, with what was there before them."""

    def _read(self) -> Blocks:
        if self._blocks is None:
            self._blocks = self._joined()
        return self._blocks


def described(storage: Storage, tensor: torch.Tensor) -> Storage:
    """The storage, with shape and dtype of a tensor that lies in it."""
    return dataclasses.replace(storage, shape=tuple(tensor.shape), dtype=dtype_name(tensor))


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def tensors_of(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among the values, those in lists and tuples included, in order."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_of(value)
    return found
