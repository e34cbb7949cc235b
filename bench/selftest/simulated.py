"""A study on a simulated clock: the machine is a model of noise, and everything that judges it is the real thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.frontier.series import ratio_steadiness, unsteady_text
from bench.records import PLAIN, TimeSample, round_order
from bench.selftest.noise import Noise
from bench.spec import StudySpec
from bench.stats import End, Rounds, Verdict, estimate_paired, judge, paired_ratios

STEP_TIME_MS = 100.0
"""Of the plain step on the undisturbed simulated machine."""


@dataclass(frozen=True, kw_only=True)
class SimulatedStudy:
    verdicts: Mapping[str, Verdict]
    ratios: Mapping[str, float]
    end: End


def simulate_study(
    study: StudySpec, delays: Mapping[str, float], noise: Noise, generator: np.random.Generator
) -> SimulatedStudy:
    """Measures `none` and the placements of `delays` (name → share by which each step is longer) until the protocol's
    rule, or the study's time cap on the simulated clock, ends the rounds; then judges each against `none`."""
    protocol = study.controls.protocol
    names = [PLAIN, *delays]
    factors = noise(generator, protocol.rounds_max * len(names))
    rounds = Rounds(study, (), 0, names)
    samples: list[TimeSample] = []
    now_s = 0.0
    end = None
    while end is None:
        taken: list[TimeSample] = []
        for position, name in enumerate(_shuffled(study, generator, rounds.done, names)):
            step_ms = STEP_TIME_MS * (1 + delays.get(name, 0.0)) * float(factors[len(samples) + len(taken)])
            now_s += step_ms / 1e3
            taken.append(_sample(name, rounds.done, position, step_ms, now_s))
        samples += taken
        cap_s = study.caps.time_cap_s
        out_of_time = cap_s is not None and now_s + sum(sample.wall_ms for sample in taken) / 1e3 > cap_s
        end = rounds.complete(taken, names, out_of_time)
    return _judged(samples, protocol.target_half_width, end)


def _shuffled(study: StudySpec, generator: np.random.Generator, number: int, names: Sequence[str]) -> list[str]:
    """As a worker shuffles; `execution` only seeds it, so that no two simulated studies share an order."""
    return round_order(study, int(generator.integers(2**31)), number, names)


def _sample(name: str, number: int, position: int, step_ms: float, now_s: float) -> TimeSample:
    return TimeSample(
        execution=0,
        process="simulated",
        unix_time_s=now_s,
        placement=name,
        round=number,
        position=position,
        step_times_ms=(step_ms,),
        wall_ms=step_ms,
        optimizer_steps=1,
        batch_digest="",
    )


def _judged(samples: Sequence[TimeSample], target_half_width: float, end: End) -> SimulatedStudy:
    pairs = {name: ratios for name, ratios in paired_ratios(samples, PLAIN).items() if name != PLAIN}
    estimates = {name: estimate_paired(ratios) for name, ratios in pairs.items()}
    unsteady = {name: unsteady_text(ratio_steadiness(ratios, target_half_width)) for name, ratios in pairs.items()}
    return SimulatedStudy(
        verdicts={name: judge(estimate, target_half_width, unsteady[name]) for name, estimate in estimates.items()},
        ratios={name: estimate.ratio for name, estimate in estimates.items() if estimate is not None},
        end=end,
    )
