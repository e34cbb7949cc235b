"""The first op of a replay whose output is not what the first pass made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bench.audit.tolerance import rounding_tolerance
from bench.audit.verdict import OpDifference
from bench.audit.watch import Call, Pass, RanOp

VALUES, DTYPE, SHAPE, OTHER_OP = "values", "dtype", "shape", "op"


@dataclass(frozen=True, kw_only=True)
class Diverged:
    """Where one replay of one call leaves its first pass."""

    call: Call
    replay: Pass
    what: str
    position: int
    first: RanOp | None
    """None where the replay ran more ops."""
    replayed: RanOp | None
    """None where it ended early without having been done."""

    @property
    def op(self) -> RanOp:
        found = self.first or self.replayed
        assert found is not None
        return found

    @property
    def is_noise(self) -> bool:
        """Whether no more than rounding is off. The op was given the same in both passes, of one step."""
        if self.what != VALUES or self.first is None or self.replayed is None or not self.first.outputs:
            return False
        dtype = getattr(torch, self.first.outputs[0][0].removeprefix("torch."))
        one, other = self.first.norm, self.replayed.norm
        limit = rounding_tolerance(torch.finfo(dtype).eps) if dtype.is_floating_point or dtype.is_complex else 0.0
        return abs(one - other) <= limit * max(one, other)

    def told(self) -> OpDifference:
        ended = type(self.replay.raised).__name__ + " was raised" if self.replay.raised else "no op"
        return OpDifference(
            op=self.op.name,
            module=self.op.module,
            source=self.op.source,
            region=self.call.region,
            position=self.position,
            what=self.what,
            first=self._shown(self.first, "no op"),
            replayed=self._shown(self.replayed, ended),
        )

    def _shown(self, op: RanOp | None, none: str) -> str:
        if op is None:
            return none
        return op.shown if self.what != OTHER_OP else f"{op.name}: {op.shown}"


def diverged(call: Call, replay: Pass, *, other_ops_count: bool = False) -> Diverged | None:
    """None where every op that the replay ran made what the first pass's made. Ops are compared in order; casts of what
    a pass was given are left out, since autocast may take them from its cache in one pass alone. Where a policy keeps
    outputs, ops of the first pass may be missing in the replay: an op stands for the next one that made the same.

    A reentrant region runs its first pass without gradients, where torch may choose other kernels: there only an op of
    the same name is compared, and the comparison ends where the names part, unless `other_ops_count`.
    """
    first = [op for op in call.first.ops if not op.is_cast]
    again = [op for op in replay.ops if not op.is_cast]
    position = 0
    for op in again:
        if call.how.selective:
            position = _stands_for(first, position, op)
        what = _difference(first[position], op) if position < len(first) else OTHER_OP
        if what == OTHER_OP and call.how.reentrant and not other_ops_count:
            return None
        if what:
            one = first[position] if position < len(first) else None
            return Diverged(call=call, replay=replay, what=what, position=position, first=one, replayed=op)
        position += 1
    is_short = replay.raised is not None or (
        not replay.is_stopped and not call.how.selective and not call.how.reentrant
    )
    if is_short and position < len(first):
        return Diverged(
            call=call, replay=replay, what=OTHER_OP, position=position, first=first[position], replayed=None
        )
    return None


def next_after(call: Call, replay: Pass) -> RanOp | None:
    """The op of the first pass before which an early-stopped replay ended."""
    first = [op for op in call.first.ops if not op.is_cast]
    position = 0
    for op in (op for op in replay.ops if not op.is_cast):
        position = 1 + (_stands_for(first, position, op) if call.how.selective else position)
    return first[position] if replay.is_stopped and position < len(first) else None


def _stands_for(first: list[RanOp], start: int, again: RanOp) -> int:
    """Which op of a first pass, from `start` on, an op of its replay stands for where some are not run again: the next
    that made the same; where none did, the next whose output has its shapes, or at least its name."""
    alike = [index for index in range(start, len(first)) if first[index].name == again.name]
    same = [index for index in alike if first[index].outputs == again.outputs]
    shaped = [index for index in alike if _shapes(first[index]) == _shapes(again)]
    return min(same or shaped or alike or [len(first)])


def _difference(first: RanOp, again: RanOp) -> str:
    if [o[0] for o in first.outputs] != [o[0] for o in again.outputs] and first.name == again.name:
        return DTYPE
    if first.name != again.name:
        return OTHER_OP
    if _shapes(first) != _shapes(again):
        return SHAPE
    return VALUES if first.outputs != again.outputs else ""


def _shapes(op: RanOp) -> list[tuple[int, ...]]:
    return [shape for _, shape, _ in op.outputs]
