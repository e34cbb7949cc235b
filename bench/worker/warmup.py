"""The first step of a process, reported apart, and the steps after it until step time settles."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measure import has_settled, time_steps
from bench.records import FirstStep, WarmedUp
from bench.spec import ProtocolSpec
from bench.worker.bench import Bench
from bench.worker.guard import FreshProcessNeededError, guarded
from bench.worker.journal import Journal

MAX_SKIPPED_STEPS = 30
"""A loss scaler skips steps until its scale has come down."""


def first_step(bench: Bench, placements: Sequence[str], journal: Journal) -> None:
    """One optimizer step under the first placement: it makes the optimizer's state.

    Raises:
        FreshProcessNeededError: that placement cannot take it. The optimizer may hold half a state now, so the next
            process tries the next placement.
    """
    text = placements[0]

    def step() -> None:
        with bench.placed(text):
            for _ in range(MAX_SKIPPED_STEPS):
                times = time_steps(bench.step.run, 1, bench.device)
                if bench.step.optimizer_steps:
                    break
        bench.keep_state()
        journal.write(FirstStep, placement=text, step_time_ms=round(times.steps_ms[0], 4))

    if not guarded(bench, journal, "first-step", text, step):
        raise FreshProcessNeededError(f"after the failure of {text} in the first step")


def warm_up(bench: Bench, placement: str, protocol: ProtocolSpec, journal: Journal) -> None:
    """Untimed steps of the reference until step time has settled, between the protocol's bounds."""

    def steps() -> None:
        times: list[float] = []
        with bench.placed(placement):
            while len(times) < protocol.warmup_steps_max:
                if len(times) >= protocol.warmup_steps_min and has_settled(times):
                    break
                journal.starting("warmup", placement)  # each step is a sign of life
                times += time_steps(bench.step.run, 1, bench.device).steps_ms
        settled = has_settled(times)
        journal.write(WarmedUp, placement=placement, step_times_ms=tuple(round(t, 4) for t in times), settled=settled)

    if protocol.warmup_steps_max:
        guarded(bench, journal, "warmup", placement, steps)
