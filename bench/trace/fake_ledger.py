"""The ledger of a step on fake tensors: a block is born as the first tensor on it is seen, and released as its storage
dies. What kernels take for themselves is predicted (`bench.trace.workspaces`), since fake kernels take nothing."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from bench.trace.ledger import Key, Tick, described, tensors_of
from bench.trace.log import NOWHERE, Storage


@dataclass(frozen=True, kw_only=True)
class KernelBlocks:
    """The blocks that come and go while one kernel runs, its results among them."""

    sizes: tuple[int, ...]
    """Bytes of each block."""
    events: tuple[int, ...]
    """Block b allocated: b + 1; released: -(b + 1)."""
    results: Mapping[int, int]
    """Block → which of the tensors that the op hands out lies in it."""


Workspace = Callable[[Any, Sequence[Any], dict[str, Any], Any], "int | KernelBlocks | None"]
"""(op, arguments, keyword arguments, result) → what its kernel takes besides what it hands out: bytes that are there
with all results, or the blocks in their order, where that matters."""


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
        self._keys: dict[int, tuple[int, int, Any]] = {}
        """Of each storage that is alive: block, bytes when last seen, and what waits for its end."""
        for role, name, tensor in persistent:
            if _device(tensor).type == device_type:
                self._known(tensor, role, name, persists=True)

    def tick(self) -> Tick:
        return len(self._events)

    def key(self, tensor: torch.Tensor) -> Key | None:
        if _device(tensor).type != self._device_type or tensor.layout != torch.strided:
            return None
        return self._known(tensor, None, "", persists=False)

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        if self._workspace is None:
            return
        taken = self._workspace(func, args, kwargs, result)
        if isinstance(taken, KernelBlocks):
            self._replay(taken, tensors_of([result]))
        elif taken:
            self.pulse(taken)

    def _replay(self, kernel: KernelBlocks, results: Sequence[torch.Tensor]) -> None:
        """The results are born already, as the last events; they are taken back and born anew, each in its turn."""
        of_results = {self.key(tensor) for tensor in results}
        new: set[int] = set()
        while self._events and self._events[-1] - 1 in of_results:
            new.add(self._events.pop() - 1)
        blocks: dict[int, int] = {}
        for event in kernel.events:
            block = abs(event) - 1
            if event < 0:
                self.died(blocks[block])
            elif block in kernel.results:
                index = self.key(results[kernel.results[block]])
                if index in new:
                    new.remove(index)
                    self._born_again(index)
            else:
                blocks[block] = self.born(kernel.sizes[block])
        for index in sorted(new):  # the kernel that was seen made no block for it
            self._born_again(index)

    def _born_again(self, index: int) -> None:
        self._storages[index] = dataclasses.replace(self._storages[index], birth=len(self._events))
        self._events.append(index + 1)

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
        size_bytes = storage.nbytes()
        known = self._keys.get(identity)
        if known is not None:
            if known[1] == size_bytes:
                return known[0]
            index = self.born(size_bytes)  # resized: what is in it is copied before the old block goes
            self.died(known[0])
            self._keys[identity] = (index, size_bytes, known[2])
            return index
        index = self.born(size_bytes, role, name, persists)
        if persists:
            self._storages[index] = described(self._storages[index], tensor)

        def die(_: Any, self: FakeLedger = self, identity: int = identity) -> None:
            self.died(self._keys.pop(identity)[0])

        self._keys[identity] = (index, size_bytes, weakref.ref(storage, die))
        return index


def _device(tensor: torch.Tensor) -> torch.device:
    """Without the two dispatches that `FakeTensor.device` costs."""
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
