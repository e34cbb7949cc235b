"""One step recorded op by op, below autograd, with what happens around the ops: modules, phases, passes of regions.

The recorder holds no tensor and puts no hook on autograd, so that every tensor dies when it would die unwatched. What
allocates and releases is told by a ledger (`bench.trace.ledger`), which differs between real and fake tensors.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.measure.ops import UncountedOpError, count_flops
from bench.placement.region_forward import watching_regions
from bench.placement.types import Region
from bench.spec.roles import GRADIENT
from bench.step.interface import BACKWARD, FORWARD
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, PhaseMark, RegionPass, StepLog, Storage
from bench.trace.sums import may_add_in_place, sums_in_place

_DEVICE = torch.ops.prim.device.default

Tick = int
"""A moment of the step, as a ledger numbers them."""
Key = int
"""A block of memory, as a ledger names it; good for the moment at which it was asked for."""


class Ledger(Protocol):
    """What is allocated, and when."""

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


_Origin = tuple[int, str, int]
"""(forward op, module, source)"""
_UNKNOWN: _Origin = (NOWHERE, "", NOWHERE)


@dataclass
class _Op:
    name: str
    module: str
    phase: str
    micro_batch: int
    region_pass: int
    source: int
    forward_op: int
    flops: int | None
    moved_bytes: int
    reads: list[Key]
    writes: list[Key]
    begin: Tick
    end: Tick


@dataclass
class _Pass:
    region: Region
    call: int
    kind: str
    around: int
    begin: Tick
    boundary: list[Key]
    end: Tick = 0
    handed_out: list[Key] = field(default_factory=list)


class Recorder(TorchDispatchMode):
    """Enter `recording(...)` around a step, hand `on_phase` to it, then ask for `log(...)`."""

    def __init__(self, model: nn.Module, ledger: Ledger, *, watched_parameters: Iterable[torch.Tensor] = ()) -> None:
        """`watched_parameters`: whose gradients are told from other tensors."""
        super().__init__()
        self._ledger = ledger
        self._parameters = list(watched_parameters)
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._model = model
        self._ops: list[_Op] = []
        self._sums: list[int] = []
        """Ops of backward that autograd would do in place, were it not watched."""
        self._passes: list[_Pass] = []
        self._phases: list[tuple[str, int, Tick]] = []
        self._shapes: list[tuple[Key, Tick, tuple[int, ...], str]] = []
        self._gradients: list[tuple[Key, Tick, str]] = []
        self._modules: list[str] = []
        self._open_passes: list[int] = []
        self._call_numbers: dict[Region, dict[int, int]] = {}
        self._phase, self._micro_batch = "", NOWHERE
        self._origin_of_node: dict[int, _Origin] = {}
        self._sequence = torch._C._autograd._get_sequence_nr()
        self._thread = threading.get_ident()
        self._sources = _Sources()

    # What the step tells

    def on_phase(self, phase: str) -> None:
        if self._phase == BACKWARD:
            self._note_gradients()
        self._micro_batch += phase == FORWARD
        self._phase = phase
        self._phases.append((phase, max(self._micro_batch, 0), self._ledger.tick()))

    def enter(self, region: Region, call: int, is_replay: bool, tensors: Sequence[torch.Tensor]) -> None:
        numbers = self._call_numbers.setdefault(region, {})
        self._passes.append(
            _Pass(
                region=region,
                call=numbers.setdefault(call, len(numbers)),
                kind=REPLAY if is_replay else FIRST,
                around=self._open_passes[-1] if self._open_passes else NOWHERE,
                begin=self._ledger.tick(),
                boundary=self._keys(tensors),
            )
        )
        self._open_passes.append(len(self._passes) - 1)

    def leave(self, result: Any) -> None:
        ended = self._passes[self._open_passes.pop()]
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
                self._shapes.append((key, end, tuple(tensor.shape), dtype_name(tensor)))
        index = len(self._ops)
        if self._phase == BACKWARD and may_add_in_place(func, args):
            self._sums.append(index)
        forward_op, module, source = self._origin(index)
        self._ops.append(
            _Op(
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
        ledger = self._ledger
        storages, events = ledger.blocks()

        def found(keys: Iterable[Key], tick: Tick) -> tuple[int, ...]:
            indices = (ledger.storage(key, tick) for key in keys)
            return tuple(dict.fromkeys(index for index in indices if index is not None))

        ops = [
            Op(
                name=op.name,
                module=op.module,
                phase=op.phase,
                micro_batch=op.micro_batch,
                region_pass=op.region_pass,
                source=op.source,
                forward_op=op.forward_op,
                flops=op.flops,
                moved_bytes=op.moved_bytes,
                reads=found(op.reads, op.begin),
                writes=found(op.writes, op.end),
                begin=ledger.events(op.begin),
                end=ledger.events(op.end),
            )
            for op in self._ops
        ]
        passes = [
            RegionPass(
                region=str(p.region),
                call=p.call,
                kind=p.kind,
                around=p.around,
                begin=ledger.events(p.begin),
                end=ledger.events(p.end),
                boundary=found(p.boundary, p.begin),
                handed_out=found(p.handed_out, p.end),
            )
            for p in self._passes
        ]
        facts: dict[int, dict[str, Any]] = {}
        for key, tick, shape, dtype in self._shapes:
            for index in found([key], tick):
                facts.setdefault(index, {}).setdefault("shape", (shape, dtype))
        for key, tick, name in self._gradients:
            for index in found([key], tick):
                facts.setdefault(index, {})["gradient"] = name
        makers = _makers(ops, storages)
        return StepLog(
            model=model,
            placement=placement,
            device=device,
            is_fake=is_fake,
            ops=tuple(ops),
            storages=tuple(
                _told(storage, makers[index], facts.get(index, {})) for index, storage in enumerate(storages)
            ),
            passes=tuple(passes),
            phases=tuple(
                PhaseMark(phase=phase, micro_batch=batch, begin=ledger.events(tick))
                for phase, batch, tick in self._phases
            ),
            sources=tuple(self._sources.lines),
            events=tuple(events),
        )

    # Where an op belongs

    @contextmanager
    def modules_named(self) -> Iterator[None]:
        """While it lasts, ops know the module whose forward they ran in. Enter it before a placement is applied, so
        that replays, which call the forward that lay below, are seen as well."""
        wrapped: list[tuple[nn.Module, Any]] = []
        for name, module in self._model.named_modules():
            wrapped.append((module, vars(module).get("forward")))
            module.forward = _Named(self._modules, name, module.forward)
        try:
            yield
        finally:
            for module, own in wrapped:
                if own is None:
                    del module.forward
                else:
                    module.forward = own

    def _in_replay(self) -> bool:
        return any(self._passes[index].kind == REPLAY for index in self._open_passes)

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
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is not None:
                for key in self._keys([gradient]):
                    self._gradients.append((key, tick, self._names.get(id(parameter), "")))

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


class _Sources:
    """Lines of code outside torch and the harness, each numbered once."""

    _torch = str(Path(torch.__file__).parent)
    _bench = str(Path(__file__).parents[1])

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[tuple[Any, int], int] = {}
        self._skipped: dict[str, bool] = {}

    def here(self) -> int:
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            path = code.co_filename
            skip = self._skipped.get(path)
            if skip is None:
                skip = self._skipped[path] = self._is_skipped(path)
            if not skip:
                place = (code, frame.f_lineno)
                if place not in self._numbers:
                    self._numbers[place] = len(self.lines)
                    self.lines.append(f"{_shown(path)}:{frame.f_lineno} {code.co_name}")
                return self._numbers[place]
            frame = frame.f_back  # type: ignore[assignment]
        return NOWHERE

    def _is_skipped(self, path: str) -> bool:
        inside = path.startswith(self._bench) and not path.startswith(f"{self._bench}/installed")
        return (
            path.startswith((self._torch, "<")) or inside or f"{Path(path).name}" in ("contextlib.py", "functools.py")
        )


def _shown(path: str) -> str:
    """Without the folder that it is imported from, so that no path of a machine stands in a log."""
    roots = [entry.rstrip("/") + "/" for entry in sys.path if entry and path.startswith(entry.rstrip("/") + "/")]
    root = max(roots, key=len, default="")
    return path[len(root) :] if root else Path(path).name


def tensors_of(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among the values, those in lists and tuples included, in order."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_of(value)
    return found


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


def _makers(ops: Sequence[Op], storages: Sequence[Storage]) -> list[int]:
    """The op that each storage was allocated in, by event numbers; ops do not overlap."""
    makers = [NOWHERE] * len(storages)
    born = sorted((s.birth, index) for index, s in enumerate(storages) if s.birth is not None)
    position = 0
    for number, op in enumerate(ops):
        while position < len(born) and born[position][0] < op.begin:
            position += 1
        while position < len(born) and born[position][0] < op.end:
            makers[born[position][1]] = number
            position += 1
    return makers


def described(storage: Storage, tensor: torch.Tensor) -> Storage:
    """The storage, with shape and dtype of a tensor that lies in it."""
    return dataclasses.replace(storage, shape=tuple(tensor.shape), dtype=dtype_name(tensor))


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _told(storage: Storage, op: int, facts: dict[str, Any]) -> Storage:
    shape, dtype = facts.get("shape", (storage.shape, storage.dtype))
    gradient = facts.get("gradient")
    return dataclasses.replace(
        storage,
        role=storage.role if gradient is None else GRADIENT,
        name=storage.name if gradient is None else gradient,
        shape=shape,
        dtype=dtype,
        op=op,
    )
