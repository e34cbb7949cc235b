"""Programs measured: the exact peak in a pass of its own, then times in shuffled rounds beside the plain step."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from bench.measure import allocator_state, has_settled, measure_memory, time_steps
from bench.measure.memory import OnPhase
from bench.records import TIME_CAP
from bench.records.compiled import EAGER, StepSample
from bench.spec import ProtocolSpec
from bench.stats import StoppingRule, estimate_ratio, half_width, stop_reason
from bench.worker.bench import Bench
from bench.worker.compiled_program import compiled_on
from bench.worker.failure import outcome_of

NOTHING_LEFT = "nothing left to compare"


@dataclass(frozen=True, kw_only=True)
class Runnable:
    """A program, or the plain step, as it is put on the model."""

    name: str
    compiled: Callable[..., Any] | None = None
    """None for the plain step."""

    def on(self, bench: Bench) -> AbstractContextManager[None]:
        return nullcontext() if self.compiled is None else compiled_on(bench.step.model, self.compiled)


def attempt(bench: Bench, work: Callable[[], None]) -> tuple[str, str]:
    """(outcome, reason) of `work`; where it failed, the step is put back in order.

    Raises:
        RuntimeError: the step cannot be put in order, so this process must not measure on.
    """
    try:
        work()
        return "ok", ""
    except (Exception, SystemExit) as error:
        outcome, reason = outcome_of(error)
    bench.recover()
    return outcome, reason


def weigh(bench: Bench, runnable: Runnable) -> dict[str, Any]:
    """Fields of a `Program` from a memory pass of two steps, the second read; from the state that all passes start
    from. The program is compiled already.

    Raises:
        LeakingError, RuntimeError: it does not fit, or leaves more or less than it began with.
    """
    losses: list[float] = []

    def run(on_phase: OnPhase) -> None:
        losses.append(float(bench.step.run(on_phase)))

    bench.restore_state()
    with runnable.on(bench):
        reading = measure_memory(run, bench.persistent_tensors, bench.device)
    bench.restore_state()
    return {
        "peak_allocated_bytes": reading.peak_bytes,
        "persistent_bytes": reading.persistent_bytes,
        "retained_bytes": reading.retained_bytes,
        "peak_phase": reading.peak_phase,
        "peak_reserved_bytes": reading.peak_reserved_bytes,
        "losses": tuple(loss if math.isfinite(loss) else None for loss in losses),
    }


@dataclass
class Timed:
    """What the rounds came to."""

    samples: list[StepSample] = field(default_factory=list)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Program → (outcome, reason)."""
    stopped: str = NOTHING_LEFT


def time_in_rounds(bench: Bench, programs: Sequence[Runnable], protocol: ProtocolSpec, cap_s: float | None) -> Timed:
    """One sample of every program in each shuffled round, until the protocol's stopping rule or the cap ends them.

    Args:
        programs: the plain step among them, which every ratio is paired with.
        cap_s: of wall time, warm-up included.
    """
    began = time.monotonic()
    rule = StoppingRule(
        target_half_width=protocol.target_half_width, rounds_min=protocol.rounds_min, rounds_max=protocol.rounds_max
    )
    timed = Timed()
    logs: dict[str, list[float]] = {}
    history: list[dict[str, float | None]] = []
    longest_s = 0.0
    _warm_up(bench, protocol)
    while len(alive := [p for p in programs if p.name not in timed.failed]) > 1 and EAGER not in timed.failed:
        round_began = time.monotonic()
        times = _round(bench, alive, protocol, len(history), timed)
        longest_s = max(longest_s, time.monotonic() - round_began)
        for name, ms in times.items():
            if name != EAGER and EAGER in times:
                logs.setdefault(name, []).append(math.log(ms / times[EAGER]))
        history.append({p.name: _width(logs.get(p.name)) for p in alive if p.name not in (EAGER, *timed.failed)})
        is_over = cap_s is not None and time.monotonic() - began + longest_s > cap_s
        if (reason := stop_reason(history, rule) or (TIME_CAP if is_over else None)) is not None:
            timed.stopped = reason
            break
    return timed


def _round(
    bench: Bench, alive: Sequence[Runnable], protocol: ProtocolSpec, number: int, timed: Timed
) -> dict[str, float]:
    """Program → median step time, of one round; samples and failures join `timed`."""
    order = list(alive)
    random.Random(f"{protocol.shuffle_seed} {number}").shuffle(order)
    medians: dict[str, float] = {}
    for position, program in enumerate(order):

        def sample(program: Runnable = program, position: int = position) -> None:
            with program.on(bench):
                for _ in range(protocol.settle_steps):
                    bench.step.run()
                gc.collect()
                times = time_steps(bench.step.run, protocol.steps_per_sample, bench.device).steps_ms
            steps = tuple(round(ms, 4) for ms in times)
            timed.samples.append(StepSample(program=program.name, round=number, position=position, step_times_ms=steps))
            medians[program.name] = timed.samples[-1].time_ms

        outcome, reason = attempt(bench, sample)
        if outcome != "ok":
            timed.failed[program.name] = outcome, reason
    return medians


def _warm_up(bench: Bench, protocol: ProtocolSpec) -> None:
    """Untimed plain steps until they have settled; the programs have run in their memory passes."""
    times: list[float] = []
    states: list[tuple[int, ...]] = []
    least, most = protocol.warmup_steps_min, protocol.warmup_steps_max
    while len(times) < most and not (len(times) >= least and has_settled(times, states)):
        times += time_steps(bench.step.run, 1, bench.device).steps_ms
        states.append(allocator_state(bench.device))


def _width(logs: Sequence[float] | None) -> float | None:
    return half_width(estimate_ratio([logs])) if logs else None
