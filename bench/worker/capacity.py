"""`python -m bench.worker.capacity`: two whole optimizer steps of one placement at one size, under the memory meter.

The process is fresh and does nothing else, so that what it finds is true of a training that begins at this size. It
answers in lines: the stage that it enters, and at last the probe.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bench.capacity.placing import placement_at
from bench.capacity.types import DATA_ENDS, DOES_NOT_FIT, FITS, NO_STEP
from bench.capacity.words import mib_text
from bench.measure import MemoryReading, is_out_of_memory, measure_memory
from bench.measure.memory import OnPhase
from bench.spec import Controls, PlacementEntry
from bench.step import TrainingStep
from bench.step.interface import END, FORWARD, OPTIMIZER, ZERO_GRAD
from bench.worker.bench import Bench
from bench.worker.capacity_lines import Lines, serve
from bench.worker.capacity_step import DataEndsError, build_step, evaluate, num_changed, sampled_weights
from bench.worker.effect import check_effect
from bench.worker.failure import outcome_of
from bench.worker.setup import set_up_process
from bench.worker.warmup import MAX_SKIPPED_STEPS

EVALUATION = "evaluation"
STEPS = 2


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    controls: Controls
    """At the size to probe; their memory limit is what the process may not go beyond."""
    entry: PlacementEntry
    usable_bytes: int
    """What the peak must not exceed."""
    evaluation: bool = False
    """Whether a forward without gradients runs between the two steps."""
    entries: tuple[PlacementEntry, ...] = ()
    """Of the whole search, where the axis changes the model."""
    options: Mapping[str, Any] | None = None
    """Of the generators, where the axis changes the model; else the entry's text is the placement."""


@dataclass
class Found:
    """What the parent records."""

    outcome: str = "error"
    stage: str = "build"
    reason: str = ""
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_phase: str | None = None
    optimizer_steps: int | None = None
    num_samples: int | None = None
    batch_digest: str | None = None
    applied: str | None = None


def probe(request: ProbeRequest, lines: Lines) -> None:
    """Tells what was found, whatever that is."""
    found = Found()
    try:
        device = set_up_process(request.controls)
        _probe(request, device, lines, found)
    except (Exception, SystemExit) as error:  # the model's code ran
        found.outcome, found.reason = _outcome(error)
        found.peak_allocated_bytes = found.peak_reserved_bytes = found.peak_phase = None
    found.stage = lines.stage
    lines.tell("probe", vars(found))


def _outcome(error: BaseException) -> tuple[str, str]:
    outcome, reason = outcome_of(error)
    if is_out_of_memory(error):
        return DOES_NOT_FIT, reason
    return (DATA_ENDS, str(error)) if isinstance(error, DataEndsError) else (outcome, reason)


def _probe(request: ProbeRequest, device: torch.device, lines: Lines, found: Found) -> None:
    step = build_step(request.controls, device, lines)
    text = request.entry.text
    if request.options is not None:
        text = placement_at(request.entry, request.entries, request.options, step.family.chains(step.model))
        found.applied = text
    lines.enter(FORWARD)  # one without gradients shows how units are wired
    bench = Bench(request.controls, device, (text,), step=step)
    found.batch_digest = step.batch_digest
    found.num_samples = request.controls.workload.micro_batch * len(step.batches)  # each was counted as it was made
    before = sampled_weights(step)
    with bench.placed(text) as applied:
        reading = _measured(step, bench, applied, request.evaluation, lines, found)
    lines.enter(END)
    changed = num_changed(before, sampled_weights(step))
    found.peak_allocated_bytes = reading.peak_bytes
    found.peak_reserved_bytes = reading.peak_reserved_bytes
    found.peak_phase = reading.peak_phase
    found.outcome, found.reason = _judged(reading, changed, request.usable_bytes, found)


def _judged(reading: MemoryReading, changed: int, usable_bytes: int, found: Found) -> tuple[str, str]:
    if found.optimizer_steps != STEPS:
        return NO_STEP, f"{found.optimizer_steps} optimizer steps were taken, expected {STEPS}"
    if not changed:
        return NO_STEP, f"{STEPS} optimizer steps changed no weight: it does not train"
    over = reading.peak_bytes - usable_bytes
    if over > 0:
        return DOES_NOT_FIT, f"its peak of {mib_text(reading.peak_bytes)} is {mib_text(over)} over the limit"
    return FITS, ""


def _measured(
    step: TrainingStep, bench: Bench, applied: Any, evaluation: bool, lines: Lines, found: Found
) -> MemoryReading:
    """Both steps; the second, and the evaluation before it, are read."""
    _until_scaled(step, lines)
    applied.reset_counts()
    gc.collect()
    steps_before, num_runs = step.optimizer_steps, 0

    def run(on_phase: OnPhase) -> None:
        nonlocal num_runs

        def mark(phase: str) -> None:
            lines.enter(OPTIMIZER if phase == ZERO_GRAD else phase)
            on_phase(phase)

        if num_runs and evaluation:
            mark(EVALUATION)
            evaluate(step)
        step.run(mark)
        if not num_runs:  # an evaluation enters regions as well, so the first step alone is held against prediction
            check_effect(applied, bench.wiring, 1, len(step.batches))
        num_runs += 1

    reading = measure_memory(run, bench.persistent_tensors, bench.device)
    found.optimizer_steps = step.optimizer_steps - steps_before
    return reading


def _until_scaled(step: TrainingStep, lines: Lines) -> None:
    """A loss scaler skips steps until its scale has come down; those are not the two that count."""
    if step.scaler is None:
        return
    for _ in range(MAX_SKIPPED_STEPS):
        step.run(lambda phase: lines.enter(OPTIMIZER if phase == ZERO_GRAD else phase))
        if step.optimizer_steps:
            return


if __name__ == "__main__":
    raise SystemExit(serve(ProbeRequest, probe))
