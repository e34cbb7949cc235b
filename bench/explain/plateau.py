"""Where a study's placements stop to free memory: what is replayed from there on costs and buys nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.explain.words import bytes_text, count_text

TOLERANCE = 0.01
"""Of what the placements free at most: a lower peak by less than that is none."""


@dataclass(frozen=True, kw_only=True)
class PlateauPoint:
    placement: str
    peak_bytes: int
    """Forecast or measured; all of one plateau alike."""
    replay_flops: int


@dataclass(frozen=True, kw_only=True)
class Plateau:
    begins_at: str
    """The cheapest placement that is as low as any."""
    peak_bytes: int
    dearer: tuple[str, ...]
    """Placements that replay more, or as much, and free no more, in order of cost."""
    text: str


def find_plateau(points: Sequence[PlateauPoint], tolerance: float = TOLERANCE) -> Plateau | None:
    """None where each dearer placement frees more, or there are fewer than two points.

    Args:
        tolerance: share of the range between the highest and the lowest peak within which two peaks are one.
    """
    if len(points) < 2:
        return None
    ordered = sorted(points, key=lambda point: (point.replay_flops, point.peak_bytes))
    lowest = min(point.peak_bytes for point in ordered)
    span = max(point.peak_bytes for point in ordered) - lowest
    first = next(i for i, point in enumerate(ordered) if point.peak_bytes <= lowest + tolerance * span)
    begin, dearer = ordered[first], ordered[first + 1 :]
    if not dearer:
        return None
    if span == 0:
        text = (
            f"every placement has a peak of {bytes_text(lowest)}: it lies where none of them frees anything, so the "
            f"cheapest, {begin.placement}, is the whole frontier"
        )
    else:
        text = (
            f"plateau from here on: {begin.placement} reaches {bytes_text(begin.peak_bytes)}, and "
            f"{count_text(len(dearer), 'dearer placement')} {'frees' if len(dearer) == 1 else 'free'} no more"
        )
    return Plateau(
        begins_at=begin.placement,
        peak_bytes=begin.peak_bytes,
        dearer=tuple(point.placement for point in dearer),
        text=text,
    )
