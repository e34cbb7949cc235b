"""A step watched op by op inside its regions: what each pass read, ran and made, and the state around it.

Only run once something is known to differ: it digests every tensor that a region reads or makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils.checkpoint as checkpointing
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from bench.audit.compare import changed_paths
from bench.audit.digest import described, digest, norm_of
from bench.audit.outcome import structure
from bench.audit.owned import is_library_file, is_own_file
from bench.audit.passes import How, observing_passes
from bench.audit.places import ATTRIBUTE_PLACE
from bench.audit.seeds import seed_digests
from bench.audit.settings import AUTOCAST_DEVICES, Settings, kept_settings
from bench.audit.subject import Subject
from bench.audit.world import Readings, read_arguments, read_world, walked

UNFILLED = frozenset(
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
)
"""Ops that hand out whatever lies in memory."""


@dataclass(frozen=True, kw_only=True)
class Around:
    """The state at one end of a pass."""

    seeds: dict[str, str]
    world: Readings
    autocast: tuple[tuple[str, bool, str], ...]
    settings: Settings
    has_gradients: bool
    """The gradient mode."""


@dataclass(frozen=True, kw_only=True)
class RanOp:
    name: str
    is_random: bool
    generator: bool
    """Whether it was given a generator of its own."""
    writes: bool
    """Whether it changes an argument in place."""
    module: str
    source: str
    outputs: tuple[tuple[str, tuple[int, ...], int], ...]
    """(dtype, shape, digest) of each."""
    shown: str
    """The first output in words."""
    norm: float
    """Of the first output."""
    reads: tuple[int, ...]
    """Keys of the tensors that it was given and that the pass did not make."""
    is_cast: bool
    """A cast of something that the pass did not make: autocast may have it in its cache in one pass alone."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """A tensor that a pass was given or reached, at its first use."""

    key: int
    digest: int
    version: int
    trains: bool
    """Whether it requires a gradient."""
    shown: str


@dataclass(kw_only=True)
class Pass:
    is_replay: bool
    entry: Around
    time: int
    """Order among all passes."""
    ops: list[RanOp] = field(default_factory=list)
    reads: dict[int, Read] = field(default_factory=dict)
    exit: Around | None = None
    raised: BaseException | None = None
    is_stopped: bool = False
    given: tuple[tuple[int, int], ...] = ()
    """(key, digest) of each tensor among its arguments."""
    arguments: Readings = field(default_factory=dict)
    """What it was given beside tensors."""
    made: set[int] = field(default_factory=set)
    packed: list[tuple[int, bool, str]] = field(default_factory=list)
    """Of each saved tensor: ops run by then, whether the last of them made it, and the tensor in words."""


@dataclass(kw_only=True)
class Call:
    """One call of a region: its first pass and its replays."""

    how: How
    caller: str
    """Module path that called the checkpoint."""
    passes: list[Pass] = field(default_factory=list)
    boundary: list[torch.Tensor] = field(default_factory=list)
    boundary_at_entry: list[int] = field(default_factory=list)
    lost_structure: tuple[str, str] | None = None
    """(what its code returned, what its checkpoint handed out), where they differ."""

    @property
    def first(self) -> Pass:
        return self.passes[0]

    @property
    def loses_gradients(self) -> bool:
        """Whether it is reentrant, and what it trains gets nothing, since no input of it requires a gradient."""
        given = [self.first.reads[key].trains for key, _ in self.first.given]
        return self.how.reentrant and not any(given) and any(read.trains for read in self.first.reads.values())

    @property
    def region(self) -> str:
        """The module that covers it: the caller, or the one module inside which all of its ops ran."""
        modules = {op.module for op in self.first.ops}
        for name in sorted(modules, key=len):
            inside = name.startswith(f"{self.caller}.") if self.caller else bool(name)
            if inside and all(m == name or m.startswith(name + ".") for m in modules):
                return name
        return self.caller


class Watch(TorchDispatchMode):
    """Enter `watching()` around the steps; `calls` then says what the regions did."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.calls: dict[int, Call] = {}
        self.hook_moved: set[str] = set()
        """Paths that a person's own hook changed."""
        self.names: dict[int, str] = {}
        """Key of a storage → parameter, buffer or attribute that lies in it."""
        self._subject = subject
        self._open: list[tuple[int, Pass, int]] = []
        self._modules: list[str] = []
        self._storages: dict[int, StorageWeakRef] = {}
        self._time = 0
        self._before_hooks: list[Readings] = []

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        with ExitStack() as stack:
            for handle in (
                register_module_forward_pre_hook(self._module_entered),
                register_module_forward_hook(self._module_left, always_call=True),
                *self._hook_brackets(),
            ):
                stack.callback(handle.remove)
            stack.enter_context(observing_passes(self))
            stack.enter_context(self)
            yield self

    @property
    def has_reentrant(self) -> bool:
        return any(call.how.reentrant for call in self.calls.values())

    # Passes

    def enter(self, call: int, is_replay: bool, arguments: Mapping[str, Any], how: How) -> None:
        has_gradients = torch.is_grad_enabled()
        tensors = _tensors(arguments)
        with _disable_current_modes(), torch.no_grad():
            self._name_storages()
            top = self._modules[-1] if self._modules else ""
            watched = self.calls.setdefault(call, Call(how=how, caller=top))
            begun = Pass(is_replay=is_replay, entry=self._around(has_gradients), time=self._time)
            begun.arguments = read_arguments(arguments)
            self._time += 1
            if not is_replay:
                watched.boundary = list(tensors)
            for tensor in tensors:
                self._note_read(begun, tensor)
            begun.given = tuple((self._key(tensor), begun.reads[self._key(tensor)].digest) for tensor in tensors)
            if not is_replay:
                watched.boundary_at_entry = [digest(tensor) for tensor in tensors]
        watched.passes.append(begun)
        self._open.append((call, begun, len(self._modules)))
        if is_replay:
            self._modules.append(watched.caller)

    def leave(self, call: int, raised: BaseException | None, is_stopped: bool) -> None:
        _, ended, depth = self._open.pop()
        del self._modules[depth:]
        ended.raised, ended.is_stopped = raised, is_stopped
        has_gradients = torch.is_grad_enabled()
        with _disable_current_modes(), torch.no_grad():
            ended.exit = self._around(has_gradients)

    def packed(self, call: int, tensor: torch.Tensor) -> None:
        if self._open and self._open[-1][0] == call:
            ran = self._open[-1][1]
            with _disable_current_modes(), torch.no_grad():
                made_last = (
                    bool(ran.ops) and (str(tensor.dtype), tuple(tensor.shape), digest(tensor)) in ran.ops[-1].outputs
                )
            ran.packed.append(
                (len(ran.ops), made_last, f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}")
            )

    def handed_out(self, call: int, made: Any, given: Any) -> None:
        if made is None or call not in self.calls:
            return
        hidden = isinstance(made, Mapping) or any(not isinstance(m, torch.Tensor) and _held(m) for m in _items(made))
        if structure(made) != structure(given):
            self.calls[call].lost_structure = structure(made), structure(given)
        elif hidden:
            self.calls[call].lost_structure = structure(made), f"{structure(given)} without gradients"

    def changed_boundaries(self) -> list[tuple[Call, str]]:
        """Regions whose inputs are not any more what they were at entry: (call, input in words)."""
        with torch.no_grad():
            return [
                (call, described(tensor).partition(", mean")[0])
                for call in self.calls.values()
                for tensor, before in zip(call.boundary, call.boundary_at_entry, strict=False)
                if digest(tensor) != before
            ]

    def _around(self, has_gradients: bool) -> Around:
        subject = self._subject
        return Around(
            seeds=seed_digests(),
            world=read_world(subject.model, subject.names, subject.roots),
            autocast=tuple(
                (d, torch.is_autocast_enabled(d), str(torch.get_autocast_dtype(d)).removeprefix("torch."))
                for d in AUTOCAST_DEVICES
            ),
            settings=kept_settings(),
            has_gradients=has_gradients,
        )

    # Ops

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._open:
            return func(*args, **kwargs)
        given = _tensors((args, kwargs))
        ran_in = [ran for _, ran, _ in self._open]
        with torch.no_grad():
            reads = [tuple(self._note_read(ran, t) for t in given if self._key(t) not in ran.made) for ran in ran_in]
        result = func(*args, **kwargs)
        results = _tensors(result)
        given_keys = {self._key(tensor) for tensor in given}
        writes = bool(func._schema.is_mutable)
        if not writes and results and all(self._key(tensor) in given_keys for tensor in results):
            return result  # a view
        with torch.no_grad():
            is_filled = func._schema.name not in UNFILLED
            outputs = tuple((str(t.dtype), tuple(t.shape), digest(t) if is_filled else 0) for t in results)
            shown = described(results[0]) if results else "nothing"
            norm = norm_of(results[0]) if results and is_filled else 0.0
        module, source = self._modules[-1] if self._modules else "", _source()
        for ran, read in zip(ran_in, reads, strict=True):
            is_cast = func is torch.ops.aten._to_copy.default and bool(read)
            ran.ops.append(
                RanOp(
                    name=func._schema.name.removeprefix("aten::"),
                    is_random=torch.Tag.nondeterministic_seeded in func.tags,
                    generator=any(isinstance(a, torch.Generator) for a in (*args, *kwargs.values())),
                    writes=writes,
                    module=module,
                    source=source,
                    outputs=outputs,
                    shown=shown,
                    norm=norm,
                    reads=read,
                    is_cast=is_cast,
                )
            )
            if not writes:
                ran.made.update(self._key(tensor) for tensor in results)
        return result

    def _note_read(self, ran: Pass, tensor: torch.Tensor) -> int:
        key = self._key(tensor)
        if key not in ran.reads:
            version, trains = -1 if tensor.is_inference() else tensor._version, tensor.requires_grad
            shown = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
            ran.reads[key] = Read(key=key, digest=digest(tensor), version=version, trains=trains, shown=shown)
        return key

    def _key(self, tensor: torch.Tensor) -> int:
        """A number for its memory, the same for all views of it. The weak reference keeps it from being used again."""
        try:
            reference = StorageWeakRef(tensor.untyped_storage())
        except (NotImplementedError, RuntimeError):
            return id(tensor)
        return self._storages.setdefault(reference.cdata, reference).cdata

    def _name_storages(self) -> None:
        subject = self._subject
        for name, parameter in subject.names.parameters(subject.model):
            self.names[self._key(parameter)] = f"parameter {name}"
        for name, module in subject.model.named_modules():
            path = subject.names.module(name, module)
            for key, buffer in module._buffers.items():
                if buffer is not None:
                    self.names.setdefault(self._key(buffer), f"buffer {path}.{key}" if path else f"buffer {key}")
        for path, place, tensor in walked(subject.model, subject.names, subject.roots).tensors:
            word = "attribute" if place == ATTRIBUTE_PLACE else "value"
            self.names.setdefault(self._key(tensor), f"{word} {path}")

    # Modules and hooks

    def _module_entered(self, module: nn.Module, _args: Any) -> None:
        name = self._subject.names.of_module(module)
        self._modules.append(name if name is not None else (self._modules[-1] if self._modules else ""))

    def _module_left(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        if self._modules:
            self._modules.pop()

    def _hook_brackets(self) -> list[Any]:
        """Reads the world just before and just after a module's own hooks: global hooks run before them, and one that
        is added last runs after."""
        handles: list[Any] = []
        hooked = [m for m in self._subject.model.modules() if m._forward_hooks or m._forward_pre_hooks]
        keys = {id(module) for module in hooked}

        def before(module: nn.Module, *_: Any) -> None:
            if id(module) in keys:
                self._before_hooks.append(self._world())

        def after(_module: nn.Module, *_: Any) -> None:
            if self._before_hooks:
                self.hook_moved.update(changed_paths(self._before_hooks.pop(), self._world()))

        if hooked:
            handles += [register_module_forward_pre_hook(before), register_module_forward_hook(before)]
        for module in hooked:
            handles += [module.register_forward_pre_hook(after), module.register_forward_hook(after)]
        return handles

    def _world(self) -> Readings:
        with _disable_current_modes(), torch.no_grad():
            return read_world(self._subject.model, self._subject.names, self._subject.roots)


def _items(made: Any) -> Sequence[Any]:
    """What autograd looks at in what a function returned: a tensor, or the elements of a tuple."""
    return made if isinstance(made, tuple) else (made,)


def _held(value: Any) -> list[torch.Tensor]:
    """Tensors in a container, or among the attributes of an object."""
    return _tensors(value) or _tensors(list(getattr(value, "__dict__", {}).values()))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _source() -> str:
    """The innermost line of the region in the person's own code; where there is none, in a library other than torch."""
    frame = sys._getframe(1)
    library = ""
    while frame is not None and (file := frame.f_code.co_filename) != checkpointing.__file__:
        if is_own_file(file) or (not library and is_library_file(file)):
            line = f"{file.rpartition('/')[2]}:{frame.f_lineno} {frame.f_code.co_name}"
            if is_own_file(file):
                return line
            library = line
        frame = frame.f_back  # type: ignore[assignment]
    return library
