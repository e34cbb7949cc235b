"""What is known of one tensor of a step: who made it, since when it is there, and who keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.explain.reading import Reading
from bench.explain.words import fold_modules, in_module, module_pattern
from bench.trace.categories import (
    BUFFERS,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    RANDOM_STATE,
    WORKSPACES,
)
from bench.trace.log import NOWHERE, Op

NOBODY, BEFORE_THE_STEP = "nobody reads it again", "before the step"
_HOLDERS = {
    PARAMETERS: "the model",
    BUFFERS: "the model",
    OPTIMIZER_STATES: "the optimizer",
    INPUTS: "the step's batches",
    GRADIENTS: "the optimizer's step",
}


@dataclass(frozen=True, kw_only=True)
class OpPlace:
    """An op of the step, as a person would find it."""

    op: str
    """`addmm`."""
    module: str
    phase: str
    micro_batch: int
    source: str
    """`model.py:12 forward`; empty where it is not known."""
    region: str
    """Innermost region that it ran in; empty outside."""
    is_replay: bool
    backward_of: str
    """Forward op whose gradient it computes; empty of another."""


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    storage: int
    """Index in the log."""
    bytes: int
    category: str
    kind: str
    name: str
    """Of a parameter, buffer, gradient or state; empty otherwise."""
    shape: tuple[int, ...] | None
    dtype: str | None
    module: str
    """Whose forward made it, or that owns it."""
    made_by: OpPlace | None
    """None where it was there before the step, or no op made it."""
    since: str
    """Phase in which it was allocated, or BEFORE_THE_STEP."""
    since_event: int | None
    kept_by: tuple[OpPlace, ...]
    """Ops that will still read it, in order, the one that runs now included; empty of what outlives the step."""
    holder: str
    """Who keeps it, in words."""


@dataclass(frozen=True, kw_only=True)
class TensorGroup:
    """Tensors that differ only in the numbers of their modules: those of equal layers."""

    num_tensors: int
    bytes: int
    """Of all of them."""
    category: str
    kind: str
    shape: tuple[int, ...] | None
    dtype: str | None
    module: str
    """`transformer.h.0..11.mlp`."""
    op: str
    """That made them; empty where none did."""
    source: str
    since: str
    holder: str


def place_of(reading: Reading, op: Op) -> OpPlace:
    return OpPlace(
        op=op.name,
        module=op.module,
        phase=op.phase,
        micro_batch=op.micro_batch,
        source=reading.source_of(op),
        region=reading.region_of(op),
        is_replay=reading.is_replayed(op),
        backward_of="" if op.forward_op == NOWHERE else reading.log.ops[op.forward_op].name,
    )


def entries(reading: Reading, storages: Iterable[int], events: int) -> tuple[TensorEntry, ...]:
    """The largest first."""
    return tuple(sorted((entry(reading, storage, events) for storage in storages), key=lambda one: -one.bytes))


def entry(reading: Reading, storage: int, events: int) -> TensorEntry:
    """A tensor as it stands once `events` events have happened."""
    held, one = reading.log.storages[storage], reading.classes[storage]
    maker = reading.maker(storage)
    readers: tuple[OpPlace, ...] = ()
    if one.category not in _HOLDERS or one.category == GRADIENTS:
        readers = tuple(place_of(reading, reading.log.ops[op]) for op in reading.read_after(storage, events))
    return TensorEntry(
        storage=storage,
        bytes=held.size_bytes,
        category=one.category,
        kind=one.kind,
        name=held.name,
        shape=held.shape,
        dtype=held.dtype,
        module=reading.module_of(storage),
        made_by=None if maker is None else place_of(reading, maker),
        since=BEFORE_THE_STEP if held.birth is None else _phase_of(reading, held.birth, maker),
        since_event=held.birth,
        kept_by=readers,
        holder=_holder(reading, storage, readers, events),
    )


def group(tensors: Iterable[TensorEntry]) -> tuple[TensorGroup, ...]:
    """The largest first."""
    groups: dict[tuple[object, ...], list[TensorEntry]] = {}
    for one in tensors:
        op = one.made_by
        key = (
            one.category,
            one.kind,
            one.shape if op else None,
            one.dtype,
            module_pattern(one.module),
            op and (op.op, op.source),
            one.since,
            module_pattern(one.holder),
        )
        groups.setdefault(key, []).append(one)
    made = [_grouped(members) for members in groups.values()]
    return tuple(sorted(made, key=lambda g: -g.bytes))


def _grouped(members: list[TensorEntry]) -> TensorGroup:
    first = members[0]
    shapes = {one.shape for one in members}
    return TensorGroup(
        num_tensors=len(members),
        bytes=sum(one.bytes for one in members),
        category=first.category,
        kind=first.kind,
        shape=first.shape if len(shapes) == 1 else None,
        dtype=first.dtype,
        module=fold_modules([one.module for one in members]),
        op=first.made_by.op if first.made_by else "",
        source=first.made_by.source if first.made_by else "",
        since=first.since,
        holder=_fold_words([one.holder for one in members]),
    )


def _fold_words(sentences: list[str]) -> str:
    """Sentences of one pattern as one: `mul_backward of h.0..11.mlp`."""
    return " ".join(fold_modules(words) for words in zip(*(one.split(" ") for one in sentences), strict=True))


def _phase_of(reading: Reading, birth: int, maker: Op | None) -> str:
    if maker is None:
        begun = [mark for mark in reading.log.phases if mark.begin <= birth]
        return begun[-1].phase if begun else "before the forward"
    if reading.is_replayed(maker):
        return f"replay of {reading.region_of(maker)}"
    return maker.phase or "before the forward"


def _holder(reading: Reading, storage: int, readers: tuple[OpPlace, ...], events: int) -> str:
    category = reading.category(storage)
    if category in _HOLDERS:
        return _HOLDERS[category]
    if category == WORKSPACES:
        return "the kernel"
    keeper = reading.kept_for.get(storage)
    if keeper is not None and (category == RANDOM_STATE or not _is_replayed_by(reading, keeper, events)):
        return f"region {reading.log.passes[keeper].region}"
    if not readers and _is_read_by_running_node(reading, storage, events):
        running = reading.log.ops[reading.running(events)]
        return f"{reading.log.ops[running.forward_op].name}'s backward {in_module(running.module)}"
    if not readers:
        death = reading.log.storages[storage].death
        return f"{NOBODY}; alive after the step" if death is None else NOBODY
    # The last reader decides how long it stays.
    last = readers[-1]
    what = f"{last.backward_of}'s backward" if last.backward_of else last.op
    return f"{what} {in_module(last.module)}"


def _is_read_by_running_node(reading: Reading, storage: int, events: int) -> bool:
    """Whether an earlier op of the autograd node that is running has read it: the node holds what it has unpacked."""
    running = reading.running(events)
    if running == NOWHERE or reading.log.ops[running].forward_op == NOWHERE:
        return False
    forward_op = reading.log.ops[running].forward_op
    return any(reading.log.ops[op].forward_op == forward_op for op in reading.readers.get(storage, ()))


def _is_replayed_by(reading: Reading, keeper: int, events: int) -> bool:
    """Whether the region that kept it has begun its replay, so that the boundary is held by who reads it."""
    first = reading.log.passes[keeper]
    return any(
        p.region == first.region and p.call == first.call and p.kind != first.kind and p.begin < events
        for p in reading.log.passes
    )
