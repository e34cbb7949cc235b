"""Shuffled rounds, one sample of every placement in each, until a stopping rule or the time cap ends them."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.measure import time_steps
from bench.records import RoundDone, TimeSample, Work, round_order
from bench.spec import ProtocolSpec, StudySpec
from bench.stats import End, Rounds
from bench.worker.bench import Bench
from bench.worker.effect import check_effect, region_effects
from bench.worker.guard import guarded
from bench.worker.journal import Journal

NOTHING_LEFT = "nothing left"


@dataclass
class Clock:
    """How long this process has run, and how much of that was inside measured steps."""

    began: float
    """`time.monotonic()` at its start."""
    already_spent_s: float
    """By earlier processes of the execution on the same work."""
    cap_s: float | None
    measuring_s: float = 0.0
    left_out_s: float = 0.0
    """Of this process, what does not count against the cap."""

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What is done meanwhile, such as an audit, takes no time from the measurements."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.left_out_s += time.monotonic() - began

    def exceeds_cap(self, upcoming_s: float) -> bool:
        spent = self.already_spent_s + time.monotonic() - self.began - self.left_out_s
        return self.cap_s is not None and spent + upcoming_s > self.cap_s


def run_rounds(
    bench: Bench, study: StudySpec, work: Work, placements: list[str], journal: Journal, clock: Clock
) -> End:
    """Measures round after round until one of the reasons to stop holds."""
    protocol = study.controls.protocol
    rounds = Rounds(study, work.samples, work.rounds_done, placements)
    longest_s = 0.0
    end = rounds.end()  # killed between the last round and its end
    number = work.next_round
    while end is None:
        alive = [text for text in placements if text not in journal.failed]
        if not alive:
            return End(rounds=rounds.done, reason=NOTHING_LEFT, half_widths={})
        began = time.monotonic()
        samples: list[TimeSample] = []
        for position, text in enumerate(round_order(study, journal.execution, number, alive)):
            samples += take_sample(bench, text, number, position, protocol, journal, clock)
        journal.write(RoundDone, round=number)
        longest_s = max(longest_s, time.monotonic() - began)
        number += 1
        alive = [text for text in alive if text not in journal.failed]
        end = rounds.complete(samples, alive, out_of_time=clock.exceeds_cap(longest_s))
    return end


def take_sample(
    bench: Bench, text: str, number: int, position: int, protocol: ProtocolSpec, journal: Journal, clock: Clock
) -> list[TimeSample]:
    """The sample, or none where the placement failed, which the journal then says."""
    taken: list[TimeSample] = []

    def sample() -> None:
        fields = _sample(bench, text, protocol, clock)
        taken.append(journal.write(TimeSample, placement=text, round=number, position=position, **fields))

    guarded(bench, journal, "time", text, sample, number)
    return taken


def _sample(bench: Bench, text: str, protocol: ProtocolSpec, clock: Clock) -> dict[str, object]:
    step = bench.step
    with bench.placed(text) as applied:
        for _ in range(protocol.settle_steps):
            step.run()
        gc.collect()
        applied.reset_counts()
        before = step.optimizer_steps
        times = time_steps(step.run, protocol.steps_per_sample, bench.device)
        clock.measuring_s += times.wall_ms / 1e3
        taken = step.optimizer_steps - before
        if taken != protocol.steps_per_sample and step.scaler is None:
            raise RuntimeError(f"{taken} optimizer steps were taken, expected {protocol.steps_per_sample}")
        check_effect(applied, bench.wiring, protocol.steps_per_sample, len(step.batches))
        return {
            "step_times_ms": tuple(round(t, 4) for t in times.steps_ms),
            "wall_ms": round(times.wall_ms, 4),
            "optimizer_steps": taken,
            "batch_digest": step.batch_digest,
            "effects": region_effects(applied),
        }
