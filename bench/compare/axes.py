"""A study on common axes: its points, its hypervolume, and both drawn again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.compare.estimates import Estimates, estimates, valid_trials
from bench.compare.resample import resampled_log_times
from bench.compare.types import RELATIVE, Measured, Plane, Point, ReferencePoint
from bench.frontier import Interval, dominated_area, nondominated
from bench.records import PLAIN

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What times and peaks are divided by before an area is taken, so that the reference point means the same."""

    time: float
    peak: float


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A study on one scale, with what is needed to judge it."""

    found: Estimates
    peaks: dict[str, float]
    """Placement → peak, in the scale's unit; in the order of `found`."""
    draws: Array | None
    """Times of resamples × placements; None without rounds."""
    frontier: tuple[str, ...]
    """Placements on the frontier, from the lowest peak to the highest."""


def place(measured: Measured, scale: str, index: int, plain_bytes: int | None) -> Placed:
    """
    Args:
        index: of the study in its comparison.
        plain_bytes: what peaks are relative to.
    """
    found = estimates(measured, scale)
    unit = float(plain_bytes) if scale == RELATIVE and plain_bytes else 1.0
    peaks = {t.placement: (t.peak_allocated_bytes or 0) / unit for t in valid_trials(measured) if t.placement in found}
    found = {text: found[text] for text in peaks}
    drawn = resampled_log_times(measured, found, scale, index)
    # Exact ratios of bytes are compared as bytes: the same unit divides them all.
    on_frontier = nondominated([(found[text].log_time, peaks[text]) for text in found])
    kept = [text for text, is_kept in zip(found, on_frontier, strict=True) if is_kept]
    return Placed(
        found=found,
        peaks=peaks,
        draws=None if drawn is None else np.exp(drawn),
        frontier=tuple(sorted(kept, key=lambda text: peaks[text])),
    )


def plain_peak(measured: Measured) -> tuple[int | None, bool]:
    """(peak that shares are of, whether it is forecast): that of `none`; where it ran out of memory its forecast; else
    the reference's."""
    frontier = measured.frontier
    if frontier.plain_forecast is not None:
        return frontier.plain_forecast.peak_allocated_bytes, True
    peaks = {trial.placement: trial.peak_allocated_bytes for trial in valid_trials(measured)}
    return peaks.get(PLAIN, peaks.get(frontier.reference or "")), False


def plane(placed: Placed, axes: Axes | None, bound: ReferencePoint) -> Plane:
    points = [_point(placed, text) for text in sorted(placed.found, key=lambda text: placed.peaks[text])]
    area = _area([(p.time, p.peak) for p in points], axes, bound) if axes is not None and points else None
    return Plane(points=tuple(points), hypervolume=area)


def hypervolume_draws(placed: Placed, axes: Axes, bound: ReferencePoint) -> Array | None:
    """The area of each resample."""
    if placed.draws is None:
        return None
    peaks = list(placed.peaks.values())
    return np.array([_area(list(zip(row, peaks, strict=True)), axes, bound) for row in placed.draws.tolist()])


def _area(points: Sequence[tuple[float, float]], axes: Axes, bound: ReferencePoint) -> float:
    scaled = [(time / axes.time, peak / axes.peak) for time, peak in points]
    return dominated_area(scaled, (bound.time_ratio, bound.peak_ratio))


def _point(placed: Placed, text: str) -> Point:
    estimate = placed.found[text]
    span = estimate.interval
    return Point(
        placement=text,
        time=math.exp(estimate.log_time),
        interval=None if span is None else Interval(low=math.exp(span[0]), high=math.exp(span[1])),
        peak=placed.peaks[text],
        on_frontier=text in placed.frontier,
    )
