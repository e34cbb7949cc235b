"""A fake step recorded with what autograd saves: when each tensor is packed, taken out again and let go of.

Two recordings of the plain step say together what a step under any placement would do. One holds what is saved, as
autograd does: its backward is every placement's, and says when each saved tensor is let go of. The other runs the
forwards alone and holds nothing that is saved, so that tensors live as long as Python holds them, as they do in the
first pass of a checkpointed region and in its replay (`bench.trace.rearrange`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from bench.placement.forwards import forwards_wrapped
from bench.step import Step
from bench.step.interface import BACKWARD, FORWARD
from bench.step.state import roles
from bench.trace.fake_ledger import FakeLedger, Workspace
from bench.trace.ledger import Key, Tick
from bench.trace.log import StepLog
from bench.trace.recorder import Recorder
from bench.trace.sums import heirs_of_sums
from bench.trace.values import VALUE

OP, PACK, UNPACK, FORGET, RELEASE = "op", "pack", "unpack", "forget", "release"
"""A saved tensor is packed by the forward, unpacked by its backward node, forgotten as the node needs it no more, and
released with all that the node holds."""
ENTER, LEAVE, PHASE = "enter", "leave", "phase"

UNTRACKED = -1
"""Stands for a tensor on another device, whose memory is not counted."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened between two events of the log."""

    kind: str
    begin: int
    """Events before it."""
    index: int
    """Of an op or a phase in the log, of a saved tensor (in the order of packing), of a call in `Recording.calls`."""
    storage: int = UNTRACKED
    """Of what is packed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleCall:
    """One call of a module's forward."""

    module: str
    with_gradients: bool
    given_cache: bool
    """Whether it was given a cache of keys and values, which a replay would fill a second time."""
    boundary: tuple[int, ...]
    """Storage of each tensor that it was given, in order and with repeats; UNTRACKED for one on another device."""
    handed_out: tuple[int, ...] = ()
    """Storages of what it returned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    log: StepLog
    """As watched."""
    sums: Mapping[int, int]
    """Sum of gradients → the gradient that it is added into where nobody watches; storages."""
    notes: tuple[Note, ...]
    """In the order in which it happened; an op stands where it ends."""
    calls: tuple[ModuleCall, ...]


def record_held(step: Step, *, model: str, workspace: Workspace | None = None) -> Recording:
    """The plain step under hooks that hold what is saved as autograd holds it: its log is the plain step's."""
    recorder = _SavedRecorder(step, workspace)
    with recorder.modules_named(), recorder.calls_noted(), recorder.recording(), recorder.saving(_Held):
        step.run(recorder.on_phase)
    return recorder.recorded(model, str(step.device))


def record_unheld(step: Step, *, model: str, workspace: Workspace | None = None) -> Recording:
    """The forwards of a plain step under hooks that hold nothing. No backward runs, and the step ends after the last
    forward."""
    recorder = _SavedRecorder(step, workspace)

    def on_phase(phase: str) -> None:
        if recorder.num_forwards and phase not in (FORWARD, BACKWARD):
            raise _ForwardsEndedError
        recorder.on_phase(phase)

    with (
        _gradients_kept(step.optimizer),
        _without_backward(),
        recorder.modules_named(),
        recorder.calls_noted(),
        recorder.recording(),
        recorder.saving(_Dropped),
        suppress(_ForwardsEndedError),
    ):
        step.run(on_phase)
    return recorder.recorded(model, str(step.device))


class _ForwardsEndedError(Exception):
    pass


class _Dropped:
    """Stands for a saved tensor among what autograd holds, and tells when autograd lets go of it."""

    def __init__(self, index: int, released: Callable[[], None], _: torch.Tensor) -> None:
        self.index = index
        self._released = released

    def __del__(self) -> None:
        self._released()


class _Held(_Dropped):
    def __init__(self, index: int, released: Callable[[], None], tensor: torch.Tensor) -> None:
        super().__init__(index, released, tensor)
        # Without its graph, which may hold this very object.
        self.tensor = tensor.detach() if tensor.requires_grad else tensor


class _Ledger(FakeLedger):
    def stand_in(self, tensor: torch.Tensor, key: Key, died: Callable[[], None]) -> None:
        """From now on `tensor`'s memory passes for block `key`, and its end is no event."""
        storage = tensor.untyped_storage()
        identity = storage._cdata

        def die(_: Any) -> None:
            del self._keys[identity]
            died()

        self._keys[identity] = (key, storage.nbytes(), weakref.ref(storage, die))


class _SavedRecorder(Recorder):
    def __init__(self, step: Step, workspace: Workspace | None) -> None:
        self._fake_ledger = _Ledger(step.device.type, roles(step), workspace)
        super().__init__(step, self._fake_ledger)
        self.num_forwards = 0
        self._is_blind = False
        self._packed = 0
        self._notes: list[tuple[str, int, int, Key | None]] = []
        """Kind, tick, index, key."""
        self._calls: list[_Call] = []

    def on_phase(self, phase: str) -> None:
        self.num_forwards += phase == FORWARD
        self._note(PHASE, len(self._seen.phases))
        super().on_phase(phase)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self._is_blind:
            return func(*args, **(kwargs or {}))
        before = len(self._seen.ops)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if len(self._seen.ops) > before:
            self._note(OP, before)
        return result

    def saving(self, holder: type[_Dropped]) -> torch.autograd.graph.saved_tensors_hooks:
        def pack(tensor: torch.Tensor) -> _Dropped:
            index = self._packed
            self._packed += 1
            self._note(PACK, index, self._fake_ledger.key(tensor))
            return holder(index, lambda: self._note(RELEASE, index), tensor)

        def unpack(held: _Dropped) -> torch.Tensor:
            if not isinstance(held, _Held):
                raise RuntimeError("a forward takes out what it has saved, as for a gradient inside it")
            self._note(UNPACK, held.index)
            return self._stand_in(held)

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def _stand_in(self, held: _Held) -> torch.Tensor:
        """A tensor like the saved one, on memory of its own, whose end says when the node forgot it. The log takes it
        for the saved one."""
        tensor = held.tensor
        key = self._fake_ledger.key(tensor)
        if key is None or not isinstance(tensor, FakeTensor):
            return tensor
        self._is_blind = True
        try:
            alike = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            # Lazily conjugated or negated: an op that undoes that makes a view, and one that does it for real a copy.
            torch._C._set_conj(alike, tensor.is_conj())
            torch._C._set_neg(alike, tensor.is_neg())
        finally:
            self._is_blind = False
        _know_the_same(alike, tensor)
        self._fake_ledger.stand_in(alike, key, lambda: self._note(FORGET, held.index))
        return alike

    def calls_noted(self) -> AbstractContextManager[None]:
        """Calls of modules are seen where a region would see them: inside the hooks, around the forward."""
        units = ((name, module) for name, module in self._model.named_modules() if name)
        return forwards_wrapped(units, lambda name, _, forward: self._noting(name, forward))

    def recorded(self, model: str, device: str) -> Recording:
        ledger = self._fake_ledger
        log = self.watched_log(model=model, placement="none", device=device, is_fake=True)

        def storage(key: Key | None, tick: Tick) -> int:
            found = None if key is None else ledger.storage(key, tick)
            return UNTRACKED if found is None else found

        return Recording(
            log=log,
            sums=heirs_of_sums(log, self._sums),
            notes=tuple(
                Note(kind, ledger.events(tick), index, storage(key, tick)) for kind, tick, index, key in self._notes
            ),
            calls=tuple(
                ModuleCall(
                    module=call.module,
                    with_gradients=call.with_gradients,
                    given_cache=call.given_cache,
                    boundary=tuple(storage(key, call.begin) for key in call.given),
                    handed_out=tuple(storage(key, call.end) for key in call.returned),
                )
                for call in self._calls
            ),
        )

    def _note(self, kind: str, index: int, key: Key | None = None) -> None:
        self._notes.append((kind, self._fake_ledger.tick(), index, key))

    def _noting(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            index = len(self._calls)
            leaves = tree_leaves((args, kwargs))
            call = _Call(name, torch.is_grad_enabled(), any(map(_is_cache, leaves)), self._keys_of(leaves))
            self._calls.append(call)
            call.begin = self._fake_ledger.tick()
            self._note(ENTER, index)
            result = inner(*args, **kwargs)
            call.returned = self._keys_of(tree_leaves(result))
            call.end = self._fake_ledger.tick()
            self._note(LEAVE, index)
            return result

        return noted

    def _keys_of(self, leaves: Sequence[Any]) -> list[Key | None]:
        return [self._fake_ledger.key(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _know_the_same(alike: torch.Tensor, tensor: FakeTensor) -> None:
    """Values of integers, where fake tensors know theirs: whatever lies in new memory is not to be taken for them."""
    if hasattr(alike, VALUE):
        delattr(alike, VALUE)
    if hasattr(tensor, VALUE):
        setattr(alike, VALUE, getattr(tensor, VALUE))


def _is_cache(leaf: Any) -> bool:
    return hasattr(leaf, "update") and hasattr(leaf, "get_seq_length")


@dataclass
class _Call:
    module: str
    with_gradients: bool
    given_cache: bool
    given: list[Key | None]
    returned: list[Key | None] = field(default_factory=list)
    begin: int = 0
    end: int = 0


@contextmanager
def _gradients_kept(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Gradients that outlive a step are there again afterwards, although the step cleared them and made none."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept = [parameter.grad for parameter in parameters]
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, kept, strict=True):
            parameter.grad = gradient


@contextmanager
def _without_backward() -> Iterator[None]:
    """`Tensor.backward` and loss scalers go through `torch.autograd.backward`."""
    original = torch.autograd.backward
    torch.autograd.backward = _nothing
    try:
        yield
    finally:
        torch.autograd.backward = original


def _nothing(*_: Any, **__: Any) -> None:
    pass
