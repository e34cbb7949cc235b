"""The memory pass of each placement: proof of effect, counted operations, and the exact peak."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.measure import MemoryReading, OpCounter, measure_memory
from bench.measure.memory import OnPhase
from bench.placement.applying import Applied
from bench.placement.region_forward import in_replay
from bench.records import PLAIN, MemorySample
from bench.step.build import BACKWARD
from bench.worker.bench import Bench
from bench.worker.effect import (
    OtherStepError,
    check_effect,
    check_losses,
    check_repeats,
    check_retained,
    region_effects,
    replayed_modules,
)
from bench.worker.guard import guarded
from bench.worker.journal import Journal
from bench.worker.rounds import Clock

STEPS = 2
"""Steps of a pass: operations are counted in the first, memory is read in the second."""


class PlainReplaysError(BaseException):
    """The plain model checkpoints by itself, so that no placement has a baseline. Passes through the guard of a single
    placement, since it ends them all."""


def weigh_all(
    bench: Bench,
    placements: Sequence[str],
    plain: MemorySample | None,
    journal: Journal,
    clock: Clock,
    unmeasured: Sequence[str] | None = None,
) -> MemorySample | None:
    """One memory pass each, `none` first: the others are held against it.

    Args:
        plain: the sample of `none`, if there is one already.
        unmeasured: what cannot be measured either where the plain model checkpoints by itself; by default `placements`.

    Returns:
        The sample of `none`, if there is one now.
    """
    for text in sorted(placements, key=lambda text: text != PLAIN):
        if text in journal.failed:
            continue

        def weigh(text: str = text) -> None:
            nonlocal plain
            bench.restore_state()
            with bench.placed(text) as applied:
                weighing = _Pass(bench, applied)
                reading = weighing.measure()
                clock.measuring_s += weighing.wall_s
                weighing.check()
                if plain is not None:
                    check_retained(reading.retained_bytes, plain.retained_bytes)
                    try:
                        check_losses(weighing.losses, plain.losses, bench.step.precision)
                    except OtherStepError:
                        applied.undo()
                        check_repeats(_plain_losses(bench), _plain_losses(bench), bench.step.precision)
                        raise
                sample = weighing.record(journal, text, reading)
                if text == PLAIN:
                    plain = sample

        try:
            guarded(bench, journal, "memory", text, weigh)
        except PlainReplaysError as error:
            for without_baseline in placements if unmeasured is None else unmeasured:
                journal.outcome(without_baseline, "error", str(error), "memory")
            return None
    bench.restore_state()
    return plain


def _plain_losses(bench: Bench) -> list[float | None]:
    """Losses of plain steps from the state that every pass starts from."""
    bench.restore_state()
    return [_finite(float(bench.step.run())) for _ in range(STEPS)]


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


class _Pass:
    """Two steps of one placement under the memory meter, the first also under the operation counter."""

    def __init__(self, bench: Bench, applied: Applied) -> None:
        self._bench = bench
        self._applied = applied
        self._counter = OpCounter(in_replay)
        self._losses: list[float] = []
        self._replayed_modules: list[str] = []
        self.wall_s = 0.0

    def measure(self) -> MemoryReading:
        step = self._bench.step
        self._steps_before = step.optimizer_steps
        self._applied.reset_counts()
        began = time.monotonic()
        reading = measure_memory(self._run, self._bench.persistent_tensors, self._bench.device)
        self.wall_s = time.monotonic() - began
        self._optimizer_steps = step.optimizer_steps - self._steps_before
        return reading

    def _run(self, on_phase: OnPhase) -> None:
        first = not self._losses
        if not first:
            self._losses.append(float(self._bench.step.run(on_phase)))
            return
        is_backward = [False]

        def note_phase(phase: str) -> None:
            is_backward[0] = phase == BACKWARD
            on_phase(phase)

        plain = not self._applied.placement.regions
        with ExitStack() as watching:
            if plain:
                self._replayed_modules = watching.enter_context(replayed_modules(self._bench.step.model, is_backward))
            watching.enter_context(self._counter)
            loss = self._bench.step.run(note_phase)
        self._losses.append(float(loss))

    @property
    def losses(self) -> tuple[float | None, ...]:
        return tuple(_finite(loss) for loss in self._losses)

    def check(self) -> None:
        """Raises PlainReplaysError, NoEffectError or RuntimeError where the placement did not do what it says."""
        if self._optimizer_steps != STEPS:
            raise RuntimeError(f"{self._optimizer_steps} optimizer steps were taken, expected {STEPS}")
        found = self._replayed_modules
        if found:
            raise PlainReplaysError(
                f"the plain model replays by itself: {len(found)} modules ran forward inside backward, "
                f"the first {found[0]}; turn its own checkpointing off"
            )
        check_effect(self._applied, self._bench.wiring, STEPS, len(self._bench.step.batches))

    def record(self, journal: Journal, text: str, reading: MemoryReading) -> MemorySample:
        return journal.write(
            MemorySample,
            placement=text,
            peak_allocated_bytes=reading.peak_bytes,
            persistent_bytes=reading.persistent_bytes,
            retained_bytes=reading.retained_bytes,
            peak_phase=reading.peak_phase,
            peak_requested_bytes=reading.peak_requested_bytes,
            peak_reserved_bytes=reading.peak_reserved_bytes,
            losses=self.losses,
            optimizer_steps=self._optimizer_steps,
            batch_digest=self._bench.step.batch_digest,
            step_flops=self._counter.flops,
            replay_flops=self._counter.replay_flops,
            step_ops=self._counter.ops,
            replay_ops=self._counter.replay_ops,
            attention_ops=tuple(self._counter.attention_ops),
            effects=region_effects(self._applied),
            wall_s=round(self.wall_s, 4),
        )
