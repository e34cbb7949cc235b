"""Shuffled rounds, one sample of every placement in each, until the paired ratios are tight, or rounds or time end."""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass

from bench.measure import time_steps
from bench.records import TIME_CAP, RoundDone, TimeSample, Work, choose_reference
from bench.spec import ProtocolSpec, StudySpec
from bench.stats import half_widths
from bench.worker.bench import Bench
from bench.worker.effect import check_effect, region_effects
from bench.worker.guard import guarded
from bench.worker.journal import Journal

TIGHT, ROUNDS, NOTHING_LEFT = "tight", "rounds", "nothing left"


@dataclass
class Clock:
    """How long this process has run, and how much of that was inside measured steps."""

    began: float
    """`time.monotonic()` at its start."""
    already_spent_s: float
    """By earlier processes of the execution on the same work."""
    cap_s: float | None
    measuring_s: float = 0.0

    def exceeds_cap(self, upcoming_s: float) -> bool:
        spent = self.already_spent_s + time.monotonic() - self.began
        return self.cap_s is not None and spent + upcoming_s > self.cap_s


def run_rounds(
    bench: Bench, study: StudySpec, work: Work, placements: list[str], journal: Journal, clock: Clock
) -> tuple[int, str, dict[str, float | None]]:
    """Measures rounds until one of the reasons to stop holds.

    Returns:
        Rounds done in this execution, why it stopped, and the half-width reached by each placement's ratio.
    """
    protocol = study.controls.protocol
    samples = list(work.samples)
    done, longest_s = work.rounds_done, 0.0
    if done >= protocol.rounds_max:  # killed between the last round and its end
        return done, ROUNDS, _widths(study, samples, placements)
    for number in range(work.next_round, work.next_round + protocol.rounds_max):
        alive = [text for text in placements if text not in journal.failed]
        if not alive:
            return done, NOTHING_LEFT, {}
        began = time.monotonic()
        _run_round(bench, alive, number, protocol, journal, clock, samples)
        journal.write(RoundDone, round=number)
        done, longest_s = done + 1, max(longest_s, time.monotonic() - began)
        widths = _widths(study, samples, alive)
        if done >= protocol.rounds_min and _tight(widths, protocol):
            return done, TIGHT, widths
        if done >= protocol.rounds_max:
            return done, ROUNDS, widths
        if clock.exceeds_cap(upcoming_s=longest_s):
            return done, TIME_CAP, widths
    return done, ROUNDS, _widths(study, samples, placements)


def _run_round(
    bench: Bench,
    placements: list[str],
    number: int,
    protocol: ProtocolSpec,
    journal: Journal,
    clock: Clock,
    samples: list[TimeSample],
) -> None:
    order = list(placements)
    random.Random(f"{protocol.shuffle_seed} {journal.execution} {number}").shuffle(order)
    for position, text in enumerate(order):

        def sample(text: str = text, position: int = position) -> None:
            taken = _sample(bench, text, protocol, clock)
            samples.append(journal.write(TimeSample, placement=text, round=number, position=position, **taken))

        guarded(bench, journal, "time", text, sample, number)


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


def _widths(study: StudySpec, samples: list[TimeSample], alive: list[str]) -> dict[str, float | None]:
    reference = choose_reference(study, samples, alive)
    if reference is None:
        return {}
    of_alive = [sample for sample in samples if sample.placement in alive]
    return {text: None if w is None else round(w, 6) for text, w in half_widths(of_alive, reference).items()}


def _tight(widths: dict[str, float | None], protocol: ProtocolSpec) -> bool:
    return all(width is not None and width <= protocol.target_half_width for width in widths.values())
