"""Where a curve of bytes against size crosses the limit, from a few of its points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bench.capacity.sizes import Sizes

GROWTH = 8
"""Beyond the known points a line is followed to at most so many times the largest size on it."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points by the index of their size."""

    bytes: Mapping[int, float]
    over: frozenset[int]
    """Sizes that are known not to do, at unknown bytes."""


def predicted(curve: Curve, sizes: Sizes, limit_bytes: int) -> int | None:
    """Index of the largest size whose bytes should be within the limit: on the line between the last point within
    it and the next one above, or on the line through the two outermost points. -1 where the smallest size is over.

    None where nothing is known.
    """
    within = [index for index, value in curve.bytes.items() if value <= limit_bytes]
    above = sorted({i for i, value in curve.bytes.items() if value > limit_bytes} | curve.over)
    if not within:
        return _before(curve, sizes, limit_bytes, above[0]) if above else None
    last = max(within)
    following = next((index for index in above if index > last), None)
    if following is None:
        return _beyond(curve, sizes, limit_bytes, last)
    if following not in curve.bytes:
        return (last + following) // 2
    crossing = _crossing(curve, sizes, limit_bytes, last, following)
    return min(max(last, sizes.at_most(crossing)), following - 1)


def _beyond(curve: Curve, sizes: Sizes, limit_bytes: int, last: int) -> int:
    """All that is known is within the limit, and `last` the largest of it."""
    before = max((index for index in curve.bytes if index < last), default=None)
    bound = min(sizes.at_most(GROWTH * sizes[last]), sizes.count - 1)
    if before is None or curve.bytes[before] >= curve.bytes[last]:
        return max(last, min(sizes.at_most(2 * sizes[last]), bound))
    return max(last, min(sizes.at_most(_crossing(curve, sizes, limit_bytes, before, last)), bound))


def _before(curve: Curve, sizes: Sizes, limit_bytes: int, first: int) -> int:
    """All that is known is above the limit, and `first` the smallest of it."""
    if first == 0:
        return -1
    second = min((index for index in curve.bytes if index > first), default=None)
    if first not in curve.bytes or second is None or curve.bytes[first] >= curve.bytes[second]:
        return (first - 1) // 2
    crossing = _crossing(curve, sizes, limit_bytes, first, second)
    return min(max(0, sizes.at_most(max(crossing, 0))), first - 1)


def _crossing(curve: Curve, sizes: Sizes, limit_bytes: int, left: int, right: int) -> float:
    """The size at which the line through two points is at the limit."""
    slope = (curve.bytes[right] - curve.bytes[left]) / (sizes[right] - sizes[left])
    # A byte is far below what a forecast can tell, and keeps a point that is exactly at the limit on its side.
    crossing = sizes[left] + (limit_bytes - curve.bytes[left]) / slope
    return crossing if math.isfinite(crossing) else sizes[right]
