"""Made-up step logs, small enough to be worked out by hand, and random ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from hypothesis import strategies

from bench.spec.roles import GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, PhaseMark, RegionPass, StepLog, Storage

KIB = 2**10


@dataclass
class LogBuilder:
    """Writes a log as a recorder would, event by event."""

    placement: str = "none"
    storages: list[Storage] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    passes: list[RegionPass] = field(default_factory=list)
    phases: list[PhaseMark] = field(default_factory=list)
    open_passes: list[int] = field(default_factory=list)
    micro_batch: int = 0

    def persistent(self, size: int, role: str | None, name: str = "") -> int:
        self.storages.append(_storage(size, role=role, name=name, shape=(size // 4,)))
        return len(self.storages) - 1

    def phase(self, name: str) -> None:
        self.phases.append(PhaseMark(phase=name, micro_batch=self.micro_batch, begin=len(self.events)))

    def op(
        self, name: str, module: str, sizes: tuple[int, ...] = (), *, reads: tuple[int, ...] = (), workspace: int = 0,
        forward_op: int = NOWHERE, role: str | None = None, tensor: str = "",
    ) -> list[int]:  # fmt: skip
        """An op that makes blocks of these sizes, and takes and gives back `workspace` bytes meanwhile."""
        begin = len(self.events)
        made = []
        if workspace:
            self.free(self._born(workspace, None))
        for size in sizes:
            made.append(self._born(size, (size // 4,), role, tensor))
        self.ops.append(
            Op(
                name=name, module=module, phase=self.phases[-1].phase if self.phases else "",
                micro_batch=self.micro_batch, region_pass=self.open_passes[-1] if self.open_passes else NOWHERE,
                source=0, forward_op=forward_op, flops=None, moved_bytes=sum(sizes), reads=reads, writes=tuple(made),
                begin=begin, end=len(self.events),
            )
        )  # fmt: skip
        return made

    def free(self, *storages: int) -> None:
        for index in storages:
            self.storages[index] = dataclasses.replace(self.storages[index], death=len(self.events))
            self.events.append(-(index + 1))

    def enter(self, region: str, kind: str, boundary: tuple[int, ...] = ()) -> None:
        self.passes.append(
            RegionPass(
                region=region, call=0, kind=kind, around=self.open_passes[-1] if self.open_passes else NOWHERE,
                begin=len(self.events), end=len(self.events), boundary=boundary, handed_out=(),
            )
        )  # fmt: skip
        self.open_passes.append(len(self.passes) - 1)

    def leave(self) -> None:
        index = self.open_passes.pop()
        self.passes[index] = dataclasses.replace(self.passes[index], end=len(self.events))

    def log(self, *, is_fake: bool = False, model: str = "toy") -> StepLog:
        return StepLog(
            model=model,
            placement=self.placement,
            device="cpu",
            is_fake=is_fake,
            ops=tuple(self.ops),
            storages=tuple(self.storages),
            passes=tuple(self.passes),
            phases=tuple(self.phases),
            sources=("toy/model.py:12 forward",),
            events=tuple(self.events),
        )

    def _born(self, size: int, shape: tuple[int, ...] | None, role: str | None = None, name: str = "") -> int:
        self.storages.append(
            dataclasses.replace(
                _storage(size, role=role, name=name, shape=shape), op=len(self.ops), birth=len(self.events)
            )
        )
        self.events.append(len(self.storages))
        return len(self.storages) - 1


def _storage(size: int, *, role: str | None, name: str, shape: tuple[int, ...] | None) -> Storage:
    return Storage(
        size_bytes=size, role=role, name=name, shape=shape, dtype="float32" if shape is not None else None,
        op=NOWHERE, birth=None, death=None,
    )  # fmt: skip


def toy_log(
    replayed: bool = False, *, parameter: int = 100 * KIB, is_fake: bool = False, model: str = "toy"
) -> StepLog:
    """Two blocks and a head; each block saves 200 KiB inside and hands 40 KiB on. With `replayed`, both are regions.

    Plain, the peak is in the head's backward: persistent, 2 × 240 of the blocks, 60 of the loss and 60 of its gradient.
    """
    b = LogBuilder(placement="h.0..1:each" if replayed else "none")
    b.persistent(parameter, PARAMETER, "h.0.weight")
    b.persistent(2 * parameter, OPTIMIZER_STATE, "exp_avg of h.0.weight")
    b.persistent(8 * KIB, INPUT, "input_ids")
    b.phase("forward")
    (x,) = b.op("embedding", "wte", (40 * KIB,))
    inner: list[list[int]] = []
    outer = [x]
    first_ops = []
    for block in range(2):
        if replayed:
            b.enter(f"h.{block}", FIRST, (outer[-1],))
        first_ops.append(len(b.ops))
        kept = b.op("addmm", f"h.{block}.mlp", (200 * KIB,), reads=(outer[-1],), workspace=16 * KIB)
        (scalar,) = b.op("sum", f"h.{block}", (4,), reads=(kept[0],))
        out = b.op("add", f"h.{block}", (40 * KIB,), reads=(kept[0],))
        b.free(scalar)
        if replayed:
            b.free(*kept)
            b.leave()
        inner.append(kept)
        outer += out
    (loss,) = b.op("cross_entropy", "head", (60 * KIB,), reads=(outer[-1],))
    b.phase("backward")
    (grad,) = b.op("cross_entropy_backward", "head", (60 * KIB,), reads=(loss,), forward_op=len(b.ops) - 1)
    b.free(loss)
    gradients = []
    for block in (1, 0):
        kept = inner[block]
        if replayed:
            b.enter(f"h.{block}", REPLAY, (outer[block],))
            kept = b.op("addmm", f"h.{block}.mlp", (200 * KIB,), reads=(outer[block],))
            b.leave()
        (made,) = b.op("mm", f"h.{block}.mlp", (50 * KIB,), reads=(kept[0], grad), forward_op=first_ops[block])
        b.free(grad, *kept, outer[block + 1])
        grad = made
        if block == 0:
            gradients = b.op("mm", "h.0.mlp", (parameter,), reads=(grad,), role=GRADIENT, tensor="h.0.weight")
    b.free(grad, outer[0])
    b.phase("optimizer")
    b.op("_fused_adamw_", "", reads=(0, 1, *gradients))
    b.phase("zero_grad")
    b.free(*gradients)
    b.phase("end")
    return b.log(is_fake=is_fake, model=model)


@strategies.composite
def logs(draw: strategies.DrawFn) -> StepLog:
    """Any order of births and deaths, in ops and between them, over one or two micro-batches."""
    b = LogBuilder()
    for size in draw(strategies.lists(strategies.integers(1, 5000), max_size=3)):
        b.persistent(size, PARAMETER)
    alive: list[int] = []
    for phase in draw(strategies.sampled_from([("forward", "backward"), ("forward", "backward") * 2, ("forward",)])):
        b.micro_batch = sum(mark.phase == "backward" for mark in b.phases)
        b.phase(phase)
        for _ in range(draw(strategies.integers(0, 8))):
            module = draw(strategies.sampled_from(["", "h.0", "h.1.mlp", "head"]))
            sizes = draw(strategies.lists(strategies.sampled_from([1, 64, 1000, 40_000]), max_size=3))
            alive += b.op("op", module, tuple(sizes), workspace=draw(strategies.sampled_from([0, 9000])))
            while alive and draw(strategies.booleans()):
                b.free(alive.pop(draw(strategies.integers(0, len(alive) - 1))))
    b.phase("end")
    return b.log()
