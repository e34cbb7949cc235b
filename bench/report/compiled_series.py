"""Compiled steps on the frontier plot: a line a solver with hollow marks, laid over panels that are worked out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.frontier.types import Frontier
from bench.records import PLAIN
from bench.records.compiled import Compiled
from bench.report.compiled_data import CompiledPoint
from bench.report.frontier_data import AXIS_MARGIN, MIN_DATA_SHARE, FrontierData, Panel, step_corners
from bench.report.quantities import memory_unit, time_unit
from bench.report.shares import memory_reference, reference_trial

Limits = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class HollowMark:
    x: float
    y: float
    is_valid: bool


@dataclass(frozen=True, kw_only=True)
class Series:
    """One solver in one panel, in the panel's units."""

    label: str
    """As the legend says it, with how many points lie beyond the axes."""
    marks: tuple[HollowMark, ...]
    steps: tuple[tuple[float, float], ...]
    """Corners of the step line of its own frontier."""


def with_compiled(
    data: FrontierData, frontier: Frontier, points: Sequence[CompiledPoint]
) -> tuple[FrontierData, tuple[tuple[Series, ...], ...]]:
    """The plot's data with axes widened for the compiled steps, and the series of each of its panels.

    Axes are widened as far as the study's own marks keep their share of them; points beyond are counted in the label.
    Times of compiled steps are relative to the plain step, so they are drawn only where that is the study's reference
    and was measured.
    """
    reference, relative_to = reference_trial(frontier), memory_reference(frontier)
    if frontier.reference != PLAIN or reference is None or reference.step_time_ms is None or relative_to is None:
        return data, tuple(() for _ in data.panels)
    memory = memory_unit(trial.peak_allocated_bytes for trial in frontier.trials)
    time = time_unit(trial.step_time_ms for trial in frontier.trials)
    panels, series = [], []
    for panel in data.panels:
        x_size = relative_to.peak_allocated_bytes if panel.is_relative else memory.size
        y_size = 1.0 if panel.is_relative else time.of(reference.step_time_ms)
        wider, found = _laid_over(panel, points, x_size, y_size)
        panels.append(wider)
        series.append(found)
    return dataclasses.replace(data, panels=tuple(panels)), tuple(series)


def compiled_caption(compiled: Compiled, series: Sequence[Sequence[Series]]) -> str:
    """What a caption adds on the series that are drawn; empty where there are none."""
    if not any(series):
        return ""
    return (
        f" Hollow: the plain step compiled with torch.compile's activation_memory_budget ({compiled.backend}), timed "
        "against the plain step in rounds of their own; red ones train otherwise."
    )


def _laid_over(
    panel: Panel, points: Sequence[CompiledPoint], x_size: float, y_size: float
) -> tuple[Panel, tuple[Series, ...]]:
    placed = [
        (point, HollowMark(x=peak / x_size, y=ratio * y_size, is_valid=point.outcome == "ok"))
        for point in points
        for peak, ratio in [(point.peak_allocated_bytes, point.time_ratio)]
        if peak is not None and ratio is not None
    ]
    x_limits = _widened(panel.x_limits, [mark.x for _, mark in placed])
    y_limits = _widened(panel.y_limits, [mark.y for _, mark in placed])
    found = []
    for solver in dict.fromkeys(point.solver for point in points):
        own = [(point, mark) for point, mark in placed if point.solver == solver]
        inside = [(p, m) for p, m in own if _holds(x_limits, m.x) and _holds(y_limits, m.y)]
        if own:
            beyond = len(own) - len(inside)
            found.append(
                Series(
                    label=f"compiled, {solver}" + (f" ({beyond} beyond the axes)" if beyond else ""),
                    marks=tuple(mark for _, mark in inside),
                    steps=step_corners((mark.x, mark.y) for point, mark in own if point.on_frontier),
                )
            )
    return dataclasses.replace(panel, x_limits=x_limits, y_limits=y_limits), tuple(found)


def _widened(limits: Limits, values: Sequence[float]) -> Limits:
    """Widened to each value in turn, the nearest first, as long as the marks that were there keep their share."""
    low, high = limits
    span = high - low
    margin = AXIS_MARGIN * span
    for value in sorted(values, key=lambda value: max(limits[0] - value, value - limits[1])):
        wider_low, wider_high = min(low, value - margin), max(high, value + margin)
        if not _holds((low, high), value) and span >= MIN_DATA_SHARE * (wider_high - wider_low):
            low, high = wider_low, wider_high
    return low, high


def _holds(limits: Limits, value: float) -> bool:
    return limits[0] <= value <= limits[1]
