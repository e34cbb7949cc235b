"""The decision procedure of a verdict, step by step."""

from __future__ import annotations

import pytest

from bench.stats import RatioEstimate, Spread, judge

NO_SPREAD = Spread(within=None, between=None)


def estimate(
    interval: tuple[float, float] | None, verdict_interval: tuple[float, float] | None = None, pairs: int = 10
) -> RatioEstimate:
    return RatioEstimate(
        ratio=1.0, pairs=pairs, interval=interval, verdict_interval=verdict_interval or interval, spread=NO_SPREAD
    )


@pytest.mark.parametrize(
    ("interval", "verdict_interval", "word"),
    [
        ((1.02, 1.04), (1.015, 1.045), "slower"),
        ((1.001, 1.003), (1.0005, 1.0035), "slower"),  # a small difference that is sure is a difference
        ((0.90, 0.95), (0.89, 0.96), "faster"),
        ((0.99, 1.01), (0.985, 1.015), "same"),
        ((0.97, 1.03), (0.96, 1.04), "unclear"),  # the margin of "same" is twice the aim of 1 %
        ((1.001, 1.019), (0.999, 1.022), "same"),  # 95 % alone tells no difference
        ((1.001, 1.05), (0.999, 1.06), "unclear"),
        ((1.0, 1.0), (1.0, 1.0), "same"),
    ],
)
def test_verdict_follows_from_the_intervals(
    interval: tuple[float, float], verdict_interval: tuple[float, float], word: str
) -> None:
    assert judge(estimate(interval, verdict_interval), target_half_width=0.01).word == word


def test_same_needs_evidence_and_says_how_much_it_has() -> None:
    assert judge(estimate((0.994, 1.008)), 0.01).reason == "within ± 0.8 % (95 %)"
    assert judge(estimate((0.5, 1.6)), 0.01).reason == "50 % faster to 60 % slower are all possible (95 %)"
    reason = judge(estimate((1.001, 1.05), (0.999, 1.06)), 0.01).reason
    assert reason == "0.1 % to 5 % slower at 95 %, but 97 % allows no difference too"


def test_too_few_rounds_decide_nothing() -> None:
    verdict = judge(estimate(None, pairs=2), 0.01)
    assert (verdict.word, verdict.reason) == ("unclear", "2 paired rounds; 3 are the fewest that give an interval")
    assert judge(None, 0.01).word == "unclear"


def test_an_unsteady_ratio_decides_nothing() -> None:
    verdict = judge(estimate((1.2, 1.3)), 0.01, unsteady="it slows down")
    assert (verdict.word, verdict.reason) == ("unclear", "it slows down")


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        ((2.2, 2.4), "by at least 120 % (97 %)"),
        ((1.0126, 1.02), "by at least 1.2 % (97 %)"),  # never more than the interval bears out
        ((0.9606, 1.03), "within ± 4 % (95 %)"),
    ],
)
def test_bounds_are_rounded_to_their_safe_side(interval: tuple[float, float], reason: str) -> None:
    assert judge(estimate(interval), target_half_width=0.02).reason == reason
