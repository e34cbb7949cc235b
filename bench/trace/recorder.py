"""One step recorded op by op, below autograd, with what happens around the ops: modules, phases, passes of regions.

The recorder holds no tensor and puts no hook on autograd, so that every tensor dies when it would die unwatched. What
allocates and releases is told by a ledger, which differs between real and fake tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.measure.ops import UncountedOpError, count_flops
from bench.placement.forwards import forwards_wrapped
from bench.placement.region_forward import watching_regions
from bench.placement.types import Region
from bench.spec.roles import PARAMETER
from bench.step.interface import BACKWARD, FORWARD, Step
from bench.step.state import roles
from bench.trace.assembly import Seen, SeenOp, SeenPass, assemble
from bench.trace.ledger import Key, Ledger, dtype_name, tensors_of
from bench.trace.log import FIRST, NOWHERE, REPLAY, StepLog
from bench.trace.sources import SourceLines
from bench.trace.sums import may_add_in_place, sums_in_place

_DEVICE = torch.ops.prim.device.default

_Origin = tuple[int, str, int]
"""(forward op, module, source)"""
_UNKNOWN: _Origin = (NOWHERE, "", NOWHERE)


class Recorder(TorchDispatchMode):
    """Enter `recording(...)` around a step, hand `on_phase` to it, then ask for `log(...)`."""

    def __init__(self, step: Step, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._model = step.model
        self._parameters = [(name, tensor) for role, name, tensor in roles(step) if role == PARAMETER]
        self._seen = Seen()
        self._sums: list[int] = []
        """Ops of backward that autograd would do in place, were it not watched."""
        self._modules: list[str] = []
        self._open_passes: list[int] = []
        self._call_numbers: dict[Region, dict[int, int]] = {}
        self._phase, self._micro_batch = "", NOWHERE
        self._origin_of_node: dict[int, _Origin] = {}
        self._sequence = torch._C._autograd._get_sequence_nr()
        self._thread = threading.get_ident()
        self._sources = SourceLines()

    # What the step tells

    def on_phase(self, phase: str) -> None:
        if self._phase == BACKWARD:
            self._note_gradients()
        self._micro_batch += phase == FORWARD
        self._phase = phase
        self._seen.phases.append((phase, max(self._micro_batch, 0), self._ledger.tick()))

    def enter(self, region: Region, call: int, is_replay: bool, tensors: Sequence[torch.Tensor]) -> None:
        numbers = self._call_numbers.setdefault(region, {})
        self._seen.passes.append(
            SeenPass(
                region=region,
                call=numbers.setdefault(call, len(numbers)),
                kind=REPLAY if is_replay else FIRST,
                around=self._open_passes[-1] if self._open_passes else NOWHERE,
                begin=self._ledger.tick(),
                boundary=self._keys(tensors),
            )
        )
        self._open_passes.append(len(self._seen.passes) - 1)

    def leave(self, result: Any) -> None:
        ended = self._seen.passes[self._open_passes.pop()]
        ended.handed_out = self._keys(tree_leaves(result)) if result is not None else []
        ended.end = self._ledger.tick()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # asked some times for each op, so it must be quick
        kwargs = kwargs or {}
        ledger = self._ledger
        begin = ledger.tick()
        result = func(*args, **kwargs)
        arguments = tensors_of(args)
        if kwargs:
            arguments += tensors_of(kwargs.values())
        results = tensors_of((result,))
        writes = self._keys(results)
        reads = self._keys(arguments)
        changed = list(_changed(func, args, kwargs, ledger)) if func._schema.is_mutable else []
        made = [key for key in writes if key not in reads]
        if not made and not changed:  # a view, or a value that was read
            if self._phase != BACKWARD or self._in_replay():
                self._origin(NOWHERE)
            return result
        ledger.ran(func, args, kwargs, result)
        end = ledger.tick()
        for tensor in results:
            key = ledger.key(tensor)
            if key in made:
                self._seen.shapes.append((key, end, tuple(tensor.shape), dtype_name(tensor)))
        index = len(self._seen.ops)
        if self._phase == BACKWARD and may_add_in_place(func, args):
            self._sums.append(index)
        forward_op, module, source = self._origin(index)
        self._seen.ops.append(
            SeenOp(
                name=func._schema.name.removeprefix("aten::"),
                module=module,
                phase=self._phase,
                micro_batch=max(self._micro_batch, 0),
                region_pass=self._open_passes[-1] if self._open_passes else NOWHERE,
                source=source,
                forward_op=forward_op,
                flops=_flops(func, args, kwargs, result),
                moved_bytes=sum(_num_bytes(t) for t in _distinct([*arguments, *results])),
                reads=reads,
                writes=list(dict.fromkeys([*writes, *changed])),
                begin=begin,
                end=end,
            )
        )
        return result

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Everything that runs on this thread, and in the backward that it starts, is recorded."""
        with watching_regions(self), self._rng_states_seen(), self:
            yield self

    @contextmanager
    def _rng_states_seen(self) -> Iterator[None]:
        """What a region keeps of the generator is made without any op."""
        get_state = torch.get_rng_state

        def get_rng_state() -> torch.Tensor:
            state = get_state()
            self._ledger.key(state)
            return state

        torch.get_rng_state = get_rng_state
        try:
            yield
        finally:
            torch.get_rng_state = get_state

    # What it gives

    def log(self, *, model: str, placement: str, device: str, is_fake: bool) -> StepLog:
        """What an unwatched step would have done."""
        watched = self.watched_log(model=model, placement=placement, device=device, is_fake=is_fake)
        return sums_in_place(watched, self._sums)

    def watched_log(self, *, model: str, placement: str, device: str, is_fake: bool) -> StepLog:
        """What happened, with the blocks that gradients are summed into only because of the watching."""
        return assemble(
            self._seen,
            self._ledger,
            self._sources.lines,
            model=model,
            placement=placement,
            device=device,
            is_fake=is_fake,
        )

    # Where an op belongs

    def modules_named(self) -> AbstractContextManager[None]:
        """While it lasts, ops know the module whose forward they ran in. Enter it before a placement is applied, so
        that replays, which call the forward that lay below, are seen as well."""
        return forwards_wrapped(
            self._model.named_modules(), lambda name, _, forward: _Named(self._modules, name, forward)
        )

    def _in_replay(self) -> bool:
        return any(self._seen.passes[index].kind == REPLAY for index in self._open_passes)

    def _origin(self, index: int) -> _Origin:
        """Where the op that has just run belongs: one of a backward to what made its autograd node. `index` is the
        number that it will have, NOWHERE for a view."""
        if self._phase == BACKWARD and not self._in_replay():
            node = torch._C._current_autograd_node()
            return _UNKNOWN if node is None else self._origin_of_node.get(node._sequence_nr(), _UNKNOWN)
        module, source = self._module(), self._sources.here()
        if threading.get_ident() == self._thread:  # a backward thread of a device numbers its nodes by itself
            sequence = torch._C._autograd._get_sequence_nr()
            for made in range(self._sequence, sequence):
                self._origin_of_node[made] = (index, module, source)
            self._sequence = sequence
        return NOWHERE, module, source

    def _module(self) -> str:
        return self._modules[-1] if self._modules else ""

    def _note_gradients(self) -> None:
        tick = self._ledger.tick()
        for name, parameter in self._parameters:
            for key in self._keys([parameter.grad]):
                self._seen.gradients.append((key, tick, name))

    def _keys(self, tensors: Iterable[Any]) -> list[Key]:
        found = (self._ledger.key(t) for t in tensors if isinstance(t, torch.Tensor))
        return list(dict.fromkeys(key for key in found if key is not None))


class _Named:
    """Stands in for a module's forward and says, while it runs, which module that is."""

    def __init__(self, stack: list[str], name: str, inner: Callable[..., Any]) -> None:
        self._stack, self._name, self._inner = stack, name, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._stack.append(self._name)
        try:
            return self._inner(*args, **kwargs)
        finally:
            self._stack.pop()

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self._inner


def _changed(func: Any, args: Sequence[Any], kwargs: dict[str, Any], ledger: Ledger) -> Iterator[Key]:
    """Blocks that the op writes to in place."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            for tensor in tensors_of((value,)):
                key = ledger.key(tensor)
                if key is not None:
                    yield key


def _distinct(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _num_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size() if tensor.layout == torch.strided else 0


def _flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int | None:
    try:
        return count_flops(func, args, kwargs, result)
    except UncountedOpError:
        return None
