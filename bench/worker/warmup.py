"""The first step of a process, reported apart, and the steps after it until step time and allocator settle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.measure import allocator_state, has_settled, time_steps
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


def warm_up(bench: Bench, placements: Sequence[str], protocol: ProtocolSpec, journal: Journal) -> None:
    """Untimed steps of the reference, the first of `placements`, until they have settled, between the protocol's
    bounds.

    On CUDA one step of each other placement follows: the caching allocator asks the driver for the segments of each
    when it first runs, since the memory passes emptied the cache.
    """

    def steps(text: str, least: int, most: int) -> None:
        times: list[float] = []
        states: list[tuple[int, ...]] = []
        with bench.placed(text):
            while len(times) < most and not (len(times) >= least and has_settled(times, states)):
                journal.starting("warmup", text)  # each step is a sign of life
                times += time_steps(bench.step.run, 1, bench.device).steps_ms
                states.append(allocator_state(bench.device))
        journal.write(
            WarmedUp,
            placement=text,
            step_times_ms=tuple(round(t, 4) for t in times),
            settled=has_settled(times, states),
        )

    if protocol.warmup_steps_max:
        reference, *others = placements
        least, most = protocol.warmup_steps_min, protocol.warmup_steps_max
        guarded(bench, journal, "warmup", reference, partial(steps, reference, least, most))
        for text in others if bench.device.type == "cuda" else ():
            guarded(bench, journal, "warmup", text, partial(steps, text, 1, 1))
