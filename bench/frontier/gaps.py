"""Where a measured frontier leaves most open: memory budgets that are worth another placement.

Between two neighbouring points of a frontier a better placement may lie anywhere in the rectangle that they span:

    time
     │ A───────┐      A needs less memory, B less time. What is known of the budgets between them is A's time;
     │ │ open  │      a placement inside the rectangle would be on the frontier.
     │ └───────B
     └────────────── peak
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from bench.frontier.types import Trial

MAX_GAPS = 4
NEXT_SHARE = 0.1
"""Of the largest rectangle: smaller ones are not worth a placement."""


@dataclass(frozen=True, kw_only=True)
class GapPoint:
    time_ratio: float
    half_width: float
    """Of its interval; 0 for the reference, whose ratio is 1 by definition."""
    peak_bytes: int


def gap_points(trials: Iterable[Trial], reference: str | None) -> list[GapPoint]:
    """Of the trials that are on the frontier; one without an interval is not known well enough to bound a gap."""
    points = []
    for trial in trials:
        if not trial.on_frontier or trial.time_ratio is None or trial.peak_allocated_bytes is None:
            continue
        interval = trial.time_ratio_interval
        if trial.placement == reference:
            width = 0.0
        elif interval is None:
            continue
        else:
            width = interval.arm(trial.time_ratio)
        points.append(GapPoint(time_ratio=trial.time_ratio, half_width=width, peak_bytes=trial.peak_allocated_bytes))
    return points


def gap_budgets(frontier: Iterable[GapPoint], *, resolution: float, most: int = MAX_GAPS) -> tuple[int, ...]:
    """Peaks in bytes halfway between neighbours, of the largest rectangles first.

    Args:
        frontier: mutually nondominated, in any order.
        resolution: share of a step time that the protocol aims to tell apart. Neighbours whose times differ by less, or
            by less than the wider of their intervals, leave no gap.
    """
    by_peak = sorted(frontier, key=lambda point: point.peak_bytes)
    gaps: list[tuple[float, int]] = []
    for low, high in itertools.pairwise(by_peak):
        slower = low.time_ratio - high.time_ratio
        if slower > max(resolution * high.time_ratio, low.half_width, high.half_width):
            area = slower * (high.peak_bytes - low.peak_bytes)
            gaps.append((area, (low.peak_bytes + high.peak_bytes) // 2))
    gaps.sort(key=lambda gap: (-gap[0], gap[1]))
    return tuple(budget for area, budget in gaps[:most] if area >= NEXT_SHARE * gaps[0][0])
