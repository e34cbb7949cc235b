"""The end of a forward: what runs after the last unit that a placement can name, the head and the loss."""

from __future__ import annotations

from bench.explain.peak import is_in_unit
from bench.explain.reading import Reading
from bench.trace.log import NOWHERE, Op


def tail_ops(reading: Reading, micro_batch: int) -> frozenset[int]:
    """Forward ops after the last unit's last; without chains, those after the last module's."""
    forward = [
        (index, op)
        for index, op in enumerate(reading.log.ops)
        if op.phase == "forward" and op.micro_batch == micro_batch
    ]
    last = max((index for index, op in forward if is_in_unit(reading, op.module)), default=NOWHERE)
    return frozenset(index for index, _ in forward if index > last) if last != NOWHERE else frozenset()


def belongs_to(op: Op, index: int, tail: frozenset[int]) -> bool:
    """Whether an op is one of the tail, or the backward of one."""
    return index in tail or (op.forward_op != NOWHERE and op.forward_op in tail)


def tail_storages(reading: Reading, events: int, tail: frozenset[int]) -> list[int]:
    """Alive at a moment, and made by the tail or its backward; gradients of parameters are not counted."""
    return [
        index
        for index in reading.log.alive_at(events)
        if (held := reading.log.storages[index]).op != NOWHERE
        and held.role is None
        and belongs_to(reading.log.ops[held.op], held.op, tail)
    ]
