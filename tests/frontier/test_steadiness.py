"""Classes of series: flat, warming, slowing, never steady."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.frontier import build_frontier
from bench.frontier.steadiness import classify
from bench.records import Records
from bench.selftest.noise import NOISES
from tests.builders import make_records, make_study

TOLERANCE = 0.02


def levels(*parts: tuple[float, int], noise: float = 0.01, seed: int = 0) -> list[float]:
    steps = np.concatenate([np.full(count, level) for level, count in parts])
    values: list[float] = (steps + np.random.default_rng(seed).normal(0, noise, len(steps))).tolist()
    return values


@pytest.mark.parametrize(
    ("series", "word"),
    [
        (levels((0.0, 9)), "unknown"),  # too few to show anything
        (levels((0.0, 14)), "flat"),
        (levels((0.0, 40)), "flat"),
        (levels((0.0, 20), (0.015, 20), noise=0.002), "flat"),  # within the tolerance
        (levels((0.1, 7), (0.0, 7)), "warming"),
        (levels((0.0, 7), (0.1, 7)), "slowing"),
        (levels((0.1, 8), (0.0, 32)), "warming"),
        (levels((0.0, 24), (0.1, 16)), "slowing"),
        (levels((0.0, 15), (0.1, 12), (0.0, 15)), "warming"),  # the last level is the fastest
        (levels((0.0, 34), (0.1, 6)), "unsteady"),  # the last change is in the last quarter
    ],
)
def test_class_follows_from_the_levels(series: Sequence[float], word: str) -> None:
    assert classify(series, TOLERANCE).word == word


def test_change_and_its_place_are_told() -> None:
    steadiness = classify(levels((0.0, 24), (0.1, 16)), TOLERANCE)
    assert steadiness.change == pytest.approx(0.1, abs=0.01)
    assert steadiness.last_change == 24


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("count", [12, 30, 80])
def test_noise_alone_is_flat(name: str, count: int) -> None:
    generator = np.random.default_rng(5)
    false = 0
    for _ in range(200):
        pairs = np.log(NOISES[name](generator, 2 * count)).reshape(count, 2)
        signs = generator.choice([-1, 1], count)
        false += classify((signs * (pairs[:, 1] - pairs[:, 0])).tolist(), TOLERANCE).word != "flat"
    assert false / 200 <= 0.03


def study_of(ratios: Sequence[float], reference: Sequence[float] = ()) -> Records:
    plain = [100 * float(np.exp(value)) for value in (reference or [0.0] * len(ratios))]
    placed = [ms * float(np.exp(ratio)) for ms, ratio in zip(plain, ratios, strict=True)]
    return make_records({"none": plain, "a": placed}, {"none": 80, "a": 40})


def test_a_placement_whose_ratio_never_settles_is_unstable_and_not_scored() -> None:
    frontier = build_frontier(make_study(("none", "a")), study_of(levels((0.0, 34), (0.1, 6))))
    trial = frontier.trials[1]
    assert trial.outcome == "unstable"
    assert (
        trial.reason
        == "its time over the reference's never settled: it changed by 11 % as late as after 34 of 40 rounds"
    )
    assert trial.time_ratio is None
    assert frontier.frontier == ("none",)


def test_a_placement_that_warms_up_says_so_and_gets_no_verdict() -> None:
    trial = build_frontier(make_study(("none", "a")), study_of(levels((0.3, 8), (0.2, 32)))).trials[1]
    assert (trial.outcome, trial.steadiness, trial.verdict) == ("ok", "warming", "unclear")
    assert trial.verdict_reason is not None
    assert trial.verdict_reason.startswith("its time over the reference's was warming: it changed by")


def test_a_machine_that_slows_down_marks_the_study_and_spoils_no_ratio() -> None:
    frontier = build_frontier(
        make_study(("none", "a")),
        study_of(levels((0.1, 40), noise=0.003), reference=levels((0.0, 20), (0.25, 20), seed=1)),
    )
    assert frontier.drift == pytest.approx(0.28, abs=0.02)
    assert [trial.steadiness for trial in frontier.trials] == ["slowing", "flat"]
    assert frontier.trials[1].verdict == "slower"
    assert any(note.startswith("the study drifted: the step time of the sentinel none") for note in frontier.notes)


def test_a_steady_study_has_no_drift_and_a_short_one_does_not_know() -> None:
    steady = build_frontier(make_study(("none", "a")), study_of(levels((0.1, 20)), reference=levels((0.0, 20), seed=1)))
    assert steady.drift == 0
    assert build_frontier(make_study(("none", "a")), study_of(levels((0.1, 5)))).drift is None


def test_levels_that_wander_within_the_tolerance_of_the_last_one_are_flat() -> None:
    series = levels((0.0, 25), (0.012, 25), (0.006, 25), noise=0.0005)
    assert classify(series, 0.01).word == "flat"
