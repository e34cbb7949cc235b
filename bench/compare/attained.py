"""What each study attains within some memory: the step time at budgets, and where in memory which one wins.

With memory m, the best of a study is the fastest valid placement whose peak is at most m. That is a step function of m
which changes at the peaks of frontier points alone, so between the peaks of both studies the same two placements meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bench.compare.axes import Placed
from bench.compare.contest import Entry, contest
from bench.compare.types import AtBudget, Stretch, Win


def fastest_within(placed: Placed, memory: float | None) -> Entry | None:
    """Of equally fast ones the one with the lowest peak; None where none fits.

    Args:
        memory: in the scale's unit; None for any.
    """
    fitting = [text for text in placed.frontier if memory is None or placed.peaks[text] <= memory]
    if not fitting:
        return None
    best = min(fitting, key=lambda text: (placed.found[text].log_time, placed.peaks[text]))
    return best, placed.found[best]


def at_budgets(
    baseline: Placed,
    candidate: Placed,
    budgets: Sequence[tuple[float, float]],
    target_half_width: float,
    unsteady: str,
) -> tuple[AtBudget, ...]:
    """
    Args:
        budgets: (share of `none`'s peak, the same in the scale's unit); any memory is added as the last row.
    """
    asked: list[tuple[float | None, float | None]] = [*budgets, (None, None)]
    return tuple(
        AtBudget(
            share=share,
            budget=budget,
            contest=contest(
                fastest_within(baseline, budget), fastest_within(candidate, budget), target_half_width, unsteady
            ),
        )
        for share, budget in asked
    )


def stretches(baseline: Placed, candidate: Placed, target_half_width: float, unsteady: str) -> tuple[Stretch, ...]:
    """All memory from the lowest peak of either study on, in the scale's unit."""
    corners = sorted({placed.peaks[text] for placed in (baseline, candidate) for text in placed.frontier})
    return tuple(
        Stretch(
            low=low,
            high=high,
            contest=contest(fastest_within(baseline, low), fastest_within(candidate, low), target_half_width, unsteady),
        )
        for low, high in itertools.pairwise([*corners, None])
        if low is not None
    )


def wins(parts: Sequence[Stretch]) -> tuple[Win, ...]:
    """Neighbouring stretches with one verdict joined."""
    joined = []
    for verdict, group in itertools.groupby(parts, key=lambda stretch: stretch.contest.verdict):
        members = list(group)
        joined.append(Win(low=members[0].low, high=members[-1].high, verdict=verdict))
    return tuple(joined)
