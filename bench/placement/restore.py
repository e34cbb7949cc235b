"""@restore: while a region is replayed, state is what its first pass saw; afterwards it is what it was before.

So a replay moves nothing twice, and computes what the first pass computed. Each call of a region keeps its own state,
and only what its first pass moved. Around a replay

- tensors are rebound, never copied into: autograd may have saved the very tensor that the module holds. Each replay
  gets copies of its own, since it moves them and the same call may be replayed again (retain_graph);
- all is put back however the replay ends. One that stops early moves less than the first pass did; what counts is
  what the first pass left, and that was there before.

It is entered before a policy's context, so that its copies are no calls of the region's ops.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from bench.placement.held_state import ABSENT, Buffers, Cell, Contents, is_entry_same, read_state

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
"""Around the first pass of a call, and around each of its replays."""


class RestoringContexts:
    """`context_fn` of torch.utils.checkpoint for one call of a region of `units`."""

    def __init__(self, units: Sequence[nn.Module], inner: Callable[[], Contexts] | None = None) -> None:
        """`inner`: another `context_fn`, whose contexts are entered inside."""
        self._units, self._inner = units, inner

    def __call__(self) -> Contexts:
        call = _KeptCall()
        first, replay = _FirstPass(self._units, call), _Replay(call)
        if self._inner is None:
            return first, replay
        inner_first, inner_replay = self._inner()
        return _Both(first, inner_first), _Both(replay, inner_replay)


def restoring_passes(region_pass: Callable[..., Any], units: Sequence[nn.Module]) -> Callable[..., Any]:
    """For checkpoints that take no contexts: the first call of what it gives is the first pass."""
    first, replay = RestoringContexts(units)()
    is_first = True

    def restored_pass(*tensors: torch.Tensor) -> Any:
        nonlocal is_first
        context, is_first = first if is_first else replay, False
        with context:
            return region_pass(*tensors)

    return restored_pass


@contextmanager
def state_put_back(units: Sequence[nn.Module]) -> Iterator[None]:
    """Around forwards that must leave no trace and have no backward: tensors are copied back into what they were."""
    before = read_state(units)
    tensors = _TensorsBefore(before)
    try:
        yield
    finally:
        tensors.put_back()
        for cell, contents in before:
            if (kept := _kept(cell, contents, set(), {})) is not None:
                cell.write(kept.contents)


def moves_state(units: Sequence[nn.Module], forward: Callable[[], object]) -> bool:
    """Whether `forward` leaves something that @restore knows of otherwise than it found it."""
    call = _KeptCall()
    with _FirstPass(units, call):
        forward()
    return bool(call.cells)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a first pass saw in one cell, where it moved something there."""

    cell: Cell
    contents: dict[Any, Any]
    """By name: the entries that moved alone. Tensors that moved in place are copies."""

    def now(self) -> dict[Any, Any]:
        contents = self.cell.read()
        return {name: contents.get(name, ABSENT) for name in self.contents} if self.cell.by_name else contents


@dataclass(slots=True)
class _KeptCall:
    """What the first pass of one call moved."""

    cells: tuple[_Kept, ...] = ()
    moving: tuple[torch.Tensor, ...] = ()
    """Copies, among `cells`, of tensors that the pass moves in place."""


class _FirstPass(AbstractContextManager[None]):
    def __init__(self, units: Sequence[nn.Module], call: _KeptCall) -> None:
        self._units, self._call = units, call

    def __enter__(self) -> None:
        self._before = read_state(self._units)
        self._tensors = _TensorsBefore(self._before)

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        before, tensors = self._before, self._tensors
        del self._before, self._tensors
        if failed is None:
            moved = tensors.moved()
            kept = (_kept(cell, contents, moved, tensors.copies) for cell, contents in before)
            self._call.cells = tuple(entry for entry in kept if entry is not None)
            self._call.moving = tuple(tensors.copies[tensor] for tensor in moved)


def _kept(cell: Cell, before: dict[Any, Any], moved: set[int], copies: Mapping[int, torch.Tensor]) -> _Kept | None:
    """`moved`: ids of the tensors that changed in place."""
    now = cell.read()
    are_same = before.keys() == now.keys() and all(map(operator.is_, before.values(), now.values()))
    if are_same and moved.isdisjoint(map(id, before.values())):
        return None
    names = [n for n in {**before, **now} if not is_entry_same(before.get(n, ABSENT), now.get(n, ABSENT))]
    names += [n for n, value in before.items() if id(value) in moved and n not in names]
    if not names:
        return None
    if cell.by_name:
        seen = {name: before.get(name, ABSENT) for name in names}
        return _Kept(cell, {name: copies.get(id(value), _without_graph(value)) for name, value in seen.items()})
    return _Kept(cell, {n: copies[id(v)] if id(v) in moved else _without_graph(v) for n, v in before.items()})


def _without_graph(value: Any) -> Any:
    """A tensor that the last step left behind holds that step's graph, which holds what was kept then, and so on."""
    if isinstance(value, torch.Tensor) and value.grad_fn is not None:
        return value.detach().requires_grad_()
    return value


class _Replay(AbstractContextManager[None]):
    def __init__(self, call: _KeptCall) -> None:
        self._call = call
        self._before: list[list[tuple[Cell, dict[Any, Any]]]] = []

    def __enter__(self) -> None:
        moving = self._call.moving
        own = dict(zip(map(id, moving), copies_of(moving), strict=True))
        self._before.append([(kept.cell, kept.now()) for kept in self._call.cells])
        for kept in self._call.cells:
            kept.cell.write({name: own.get(id(value), value) for name, value in kept.contents.items()})

    def __exit__(self, *_: object) -> None:
        for cell, contents in self._before.pop():
            cell.write(contents)


class _TensorsBefore:
    """Copies of the tensors in the cells, and how to tell which of them moved."""

    def __init__(self, contents: Contents) -> None:
        found = {id(v): v for _, entries in contents for v in entries.values() if _is_copied(v)}
        self._tensors = list(found.values())
        self._versions = [tensor._version for tensor in self._tensors]
        self._siblings = [[id(v) for v in c.values() if id(v) in found] for cell, c in contents if _are_buffers(cell)]
        self.copies = dict(zip(found, copies_of(self._tensors), strict=True))
        """id → copy."""

    def moved(self) -> set[int]:
        """ids of the tensors that changed in place.

        Version counters do not see all: BatchNorm's kernel moves its statistics past them. So of a module's buffers all
        have moved if one has, and on the CPU values are compared. On another device that would make the program wait
        for it; a write past the counter that no other buffer of the module shows is left to the audit there.
        """
        pairs = zip(self._tensors, self._versions, strict=True)
        moved = {id(tensor) for tensor, version in pairs if tensor._version != version}
        for siblings in self._siblings:
            if not moved.isdisjoint(siblings):
                moved |= set(siblings)
        for tensor in self._tensors:
            if id(tensor) not in moved and _shows_values(tensor) and not torch.equal(tensor, self.copies[id(tensor)]):
                moved.add(id(tensor))
        for alike in _by_storage(self._tensors):
            if any(id(tensor) in moved for tensor in alike):
                moved |= {id(tensor) for tensor in alike}
        return moved

    def put_back(self) -> None:
        moved = self.moved()
        with torch.no_grad():
            for tensor in self._tensors:
                if id(tensor) in moved:
                    tensor.copy_(self.copies[id(tensor)])


def copies_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies that lie in common storages where the tensors do, so that a write to one is seen in the others."""
    copies: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for alike in _by_storage(tensors):
            if len(alike) == 1:
                copies[id(alike[0])] = alike[0].clone()
                continue
            size = alike[0].untyped_storage().nbytes() // alike[0].element_size()
            storage = alike[0].as_strided((size,), (1,), 0).clone()
            for tensor in alike:
                place = tensor.shape, tensor.stride(), tensor.storage_offset()
                copies[id(tensor)] = storage.view(tensor.dtype).as_strided(*place)
    return [copies[id(tensor)] for tensor in tensors]


def _by_storage(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    groups: dict[int, list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        has_storage = tensor.layout == torch.strided and type(tensor) in (torch.Tensor, FakeTensor)
        groups[tensor.untyped_storage()._cdata if has_storage else id(tensor)].append(tensor)
    return list(groups.values())


def _is_copied(value: Any) -> bool:
    """Tensors that take no part in training. Those that do are parameters, or were made by ops and stay as they are."""
    if not isinstance(value, torch.Tensor) or value.requires_grad:
        return False
    return not (value.is_inference() or is_lazy(value))


def _are_buffers(cell: Cell) -> bool:
    return isinstance(cell, Buffers)


def _shows_values(tensor: torch.Tensor) -> bool:
    is_fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    return tensor.device.type == "cpu" and type(tensor) is torch.Tensor and not is_fake


class _Both(AbstractContextManager[None]):
    """Two contexts as one that can be entered again."""

    def __init__(self, outer: AbstractContextManager[Any], inner: AbstractContextManager[Any]) -> None:
        self._outer, self._inner = outer, inner
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._outer)
            stack.enter_context(self._inner)
            self._entered.append(stack.pop_all())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)
