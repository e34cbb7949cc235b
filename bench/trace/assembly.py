"""From what a recorder noted, in a ledger's terms, to the log of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.placement.types import Region
from bench.spec.roles import GRADIENT
from bench.trace.ledger import Key, Ledger, Tick
from bench.trace.log import NOWHERE, Op, PhaseMark, RegionPass, StepLog, Storage


@dataclass(kw_only=True)
class SeenOp:
    """As `Op`, with blocks and moments as the ledger names them."""

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


@dataclass(kw_only=True)
class SeenPass:
    """As `RegionPass`; its end and what it handed out come later."""

    region: Region
    call: int
    kind: str
    around: int
    begin: Tick
    boundary: list[Key]
    end: Tick = 0
    handed_out: list[Key] = field(default_factory=list)


@dataclass
class Seen:
    """One step, as it was seen."""

    ops: list[SeenOp] = field(default_factory=list)
    passes: list[SeenPass] = field(default_factory=list)
    phases: list[tuple[str, int, Tick]] = field(default_factory=list)
    """(phase, micro-batch, its beginning)."""
    shapes: list[tuple[Key, Tick, tuple[int, ...], str]] = field(default_factory=list)
    """(block, moment, shape, dtype) of what ops made."""
    gradients: list[tuple[Key, Tick, str]] = field(default_factory=list)
    """(block, moment, parameter)."""


def assemble(
    seen: Seen, ledger: Ledger, sources: Sequence[str], *, model: str, placement: str, device: str, is_fake: bool
) -> StepLog:
    """Once the step has ended."""
    storages, events = ledger.blocks()

    def found(keys: Iterable[Key], tick: Tick) -> tuple[int, ...]:
        indices = (ledger.storage(key, tick) for key in keys)
        return tuple(dict.fromkeys(index for index in indices if index is not None))

    ops = tuple(
        Op(
            **_fields(op)
            | {
                "reads": found(op.reads, op.begin),
                "writes": found(op.writes, op.end),
                "begin": ledger.events(op.begin),
                "end": ledger.events(op.end),
            }
        )
        for op in seen.ops
    )
    passes = tuple(
        RegionPass(
            **_fields(p)
            | {
                "region": str(p.region),
                "boundary": found(p.boundary, p.begin),
                "handed_out": found(p.handed_out, p.end),
                "begin": ledger.events(p.begin),
                "end": ledger.events(p.end),
            }
        )
        for p in seen.passes
    )
    for index, op in enumerate(_makers(ops, storages)):
        storages[index] = dataclasses.replace(storages[index], op=op)
    for key, tick, shape, dtype in seen.shapes:
        for index in found([key], tick):
            if storages[index].shape is None:
                storages[index] = dataclasses.replace(storages[index], shape=shape, dtype=dtype)
    for key, tick, name in seen.gradients:
        for index in found([key], tick):
            storages[index] = dataclasses.replace(storages[index], role=GRADIENT, name=name)
    return StepLog(
        model=model,
        placement=placement,
        device=device,
        is_fake=is_fake,
        ops=ops,
        storages=tuple(storages),
        passes=passes,
        phases=tuple(
            PhaseMark(phase=phase, micro_batch=batch, begin=ledger.events(tick)) for phase, batch, tick in seen.phases
        ),
        sources=tuple(sources),
        events=tuple(events),
    )


def _fields(row: Any) -> dict[str, Any]:
    return dict(vars(row))


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
