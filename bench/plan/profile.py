"""What each unit of a model's chains takes in the plain step, in milliseconds and bytes: what planners are fed.

All bytes are the plain step's, on tensors without memory, and exact as its log is. With several micro-batches they are
the first one's. A unit that is called more than once in it (a shared layer) has the sums of its calls, and `num_calls`
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.plan.costs import OpCosts
from bench.spec import ChainInfo
from bench.step.interface import BACKWARD, FORWARD
from bench.trace.forecast import Forecaster
from bench.trace.log import Op, StepLog
from bench.trace.saved import ENTER, LEAVE, UNTRACKED, Recording


@dataclass(frozen=True, kw_only=True)
class UnitProfile:
    unit: str
    """Qualified name."""
    chain: str
    forward_ms: float
    """All ops of its forward."""
    backward_ms: float
    forward_flops: int | None
    """None where an op has no formula."""
    input_bytes: int
    """Storages that a region on it would hold as its boundary, those that are there all the time not counted."""
    output_bytes: int
    """Storages that it makes and hands out."""
    saved_bytes: int
    """Made in its forward and alive when the whole forward has ended, each storage once; what it hands out is among
    them where somebody saves it."""
    forward_extra_bytes: int
    """High-water mark while its forward runs, above what is alive when it ends."""
    backward_extra_bytes: int
    """High-water mark while its backward runs, above what was alive when it began."""
    num_calls: int = 1
    """In a micro-batch."""


@dataclass(frozen=True, kw_only=True)
class ChainProfile:
    name: str
    units: tuple[UnitProfile, ...]
    """In forward order."""


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    chains: tuple[ChainProfile, ...]
    persistent_bytes: int
    """There before the step and after it."""
    peak_bytes: int
    """Of the plain step."""
    step_ms: float
    """Of the plain step, all ops."""


def profile_step(forecaster: Forecaster, chains: Sequence[ChainInfo], costs: OpCosts) -> StepProfile:
    """
    Args:
        costs: of the ops of `forecaster.plain_log`.

    Raises:
        CannotRearrangeError: the plain step was not recorded with its calls; there is no profile then.
        ValueError: a unit is not called with gradients, or `costs` are another model's.
    """
    recording = forecaster.plain_recording
    if len(costs.op_ms) != len(recording.log.ops):
        raise ValueError(
            f"costs of {len(costs.op_ms)} ops for the {len(recording.log.ops)} of {recording.log.model}'s plain step; "
            "measure them on the same step"
        )
    forecast = forecaster.fast("none")
    reader = _Reader(recording, forecaster.by_fake_step("none")[1], costs)
    return StepProfile(
        chains=tuple(
            ChainProfile(name=chain.name, units=tuple(reader.unit(unit, chain.name) for unit in chain.units))
            for chain in chains
        ),
        persistent_bytes=forecast.persistent_bytes,
        peak_bytes=forecast.peak_allocated_bytes,
        step_ms=costs.step_ms,
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of the log, in events."""

    begin: int
    end: int

    def holds(self, event: int | None) -> bool:
        return event is not None and self.begin <= event < self.end


class _Reader:
    def __init__(self, recording: Recording, unwatched: StepLog, costs: OpCosts) -> None:
        """
        Args:
            unwatched: the same step, with gradients summed as where nobody watches; its ops are numbered alike.
        """
        self._recording, self._log, self._costs = recording, recording.log, costs
        self._line = self._log.timeline()
        self._unwatched, self._unwatched_line = unwatched, unwatched.timeline()
        self._forward_end = _end_of_first(self._log, FORWARD)
        marks: dict[int, list[int]] = {}
        for note in recording.notes:
            if note.kind in (ENTER, LEAVE):
                marks.setdefault(note.index, []).append(note.begin)
        self._calls: dict[str, list[int]] = {}
        self._windows: dict[int, _Window] = {}
        for index, call in enumerate(recording.calls):
            begin, end = marks[index]
            if call.with_gradients and begin < self._forward_end:
                self._calls.setdefault(call.module, []).append(index)
                self._windows[index] = _Window(begin, end)

    def unit(self, unit: str, chain: str) -> UnitProfile:
        numbers = self._calls.get(unit)
        if not numbers:
            raise ValueError(f"{unit} of chain {chain} is not called with gradients in the first forward; leave it out")
        calls = [self._recording.calls[number] for number in numbers]
        windows = [self._windows[number] for number in numbers]
        made = {
            index
            for index, storage in enumerate(self._log.storages)
            if any(window.holds(storage.birth) for window in windows)
        }
        forward = self._ops_of(unit, FORWARD)
        backward = self._ops_of(unit, BACKWARD)
        flops = [self._log.ops[op].flops for op in forward]
        return UnitProfile(
            unit=unit,
            chain=chain,
            forward_ms=self._ms(forward),
            backward_ms=self._ms(backward),
            forward_flops=None if None in flops else sum(count or 0 for count in flops),
            input_bytes=sum(self._bytes(self._not_persistent(call.boundary)) for call in calls),
            output_bytes=self._bytes(made.intersection(*[{s for call in calls for s in call.handed_out}])),
            saved_bytes=self._bytes(index for index in made if self._outlives_forward(index)),
            forward_extra_bytes=max(max(self._line[w.begin : w.end + 1]) - self._line[w.end] for w in windows),
            backward_extra_bytes=self._backward_extra(backward),
            num_calls=len(calls),
        )

    def _ops_of(self, unit: str, phase: str) -> list[int]:
        return [i for i, op in enumerate(self._log.ops) if op.micro_batch == 0 and _runs_in(op, unit, phase)]

    def _ms(self, ops: Iterable[int]) -> float:
        return sum(self._costs.op_ms[op] for op in ops)

    def _bytes(self, storages: Iterable[int]) -> int:
        return sum(self._log.storages[index].size_bytes for index in storages)

    def _not_persistent(self, storages: Iterable[int]) -> set[int]:
        return {s for s in storages if s != UNTRACKED and self._log.storages[s].birth is not None}

    def _outlives_forward(self, storage: int) -> bool:
        death = self._log.storages[storage].death
        return death is None or death >= self._forward_end

    def _backward_extra(self, backward: Sequence[int]) -> int:
        """From its first op to its last; a unit without any, such as a frozen one, takes nothing."""
        if not backward:
            return 0
        begin, end = self._unwatched.ops[backward[0]].begin, self._unwatched.ops[backward[-1]].end
        return max(self._unwatched_line[begin : end + 1]) - self._unwatched_line[begin]


def _runs_in(op: Op, unit: str, phase: str) -> bool:
    return op.phase == phase and (op.module == unit or op.module.startswith(f"{unit}."))


def _end_of_first(log: StepLog, phase: str) -> int:
    """Events before the phase that follows."""
    marks = iter(log.phases)
    for mark in marks:
        if mark.phase == phase:
            return next(marks).begin
    raise ValueError(f"the step of {log.model} has no {phase}")
