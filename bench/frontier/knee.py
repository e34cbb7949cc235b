"""The knee of a frontier: where paying more time stops buying much memory.

It is the point farthest from the chord between the frontier's two ends, both axes scaled to [0, 1] (Satopää et al.
2011, "Finding a 'Kneedle' in a Haystack", without its smoothing: a frontier has few points, and each was measured).
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.frontier.dominance import Point


def knee_index(frontier: Sequence[Point]) -> int | None:
    """Index of the knee among mutually nondominated points; the faster one of two equally far.

    None with fewer than 3 different points, and where no point lies on the better side of the chord: a frontier that is
    straight or bulges outwards has no knee.
    """
    by_time = sorted(set(frontier))
    if len(by_time) < 3:
        return None
    (fastest, highest), (slowest, lowest) = by_time[0], by_time[-1]

    def gain(point: Point) -> float:
        # Scaled, the ends are (0, 1) and (1, 0), so this is the distance from the chord times sqrt(2).
        return 1 - (point[0] - fastest) / (slowest - fastest) - (point[1] - lowest) / (highest - lowest)

    best = max(by_time[1:-1], key=gain)
    # Below the rounding of `gain` a straight frontier would get a knee by chance.
    return frontier.index(best) if gain(best) > 1e-12 else None
