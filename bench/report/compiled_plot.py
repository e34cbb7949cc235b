"""Draws compiled steps over a panel of the frontier plot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from bench.records.compiled import SOLVERS
from bench.report.compiled_series import Series
from bench.report.page import FAILURE_COLOUR

COLOUR = "#5b7f95"
"""Of no family of placements: what is compiled stands beside them."""
DASHES: tuple[tuple[float, ...], ...] = ((5, 2), (2, 1.5), (5, 1.5, 1, 1.5))
SHAPES = ("o", "s", "D")
MARK_SIZE = 4.5


def look(label: str) -> tuple[str, tuple[float, ...]]:
    """(marker, dashes) of a series, the same in every plot."""
    index = next((index for index, solver in enumerate(SOLVERS) if f", {solver}" in label), 0)
    return SHAPES[index], DASHES[index]


def draw_series(axes: Axes, series: Sequence[Series]) -> None:
    """Thin lines and hollow marks behind the study's own; what is invalid is hollow in the colour of failures. The
    axes keep their limits."""
    for one in series:
        marker, dashes = look(one.label)
        if one.steps:
            xs, ys = zip(*one.steps, strict=True)
            axes.plot(xs, ys, color=COLOUR, lw=0.8, dashes=dashes, zorder=1.8, label=one.label)
        for mark in one.marks:
            colour = COLOUR if mark.is_valid else FAILURE_COLOUR
            axes.plot(mark.x, mark.y, marker, mfc="none", mec=colour, mew=0.8, markersize=MARK_SIZE, zorder=1.9, lw=0)


def draw_legend_entry(layer: Axes, label: str, left: float, y: float) -> None:
    """The mark of a series, on the layer that is measured in inches."""
    layer.plot(left, y, look(label)[0], mfc="none", mec=COLOUR, mew=0.8, markersize=MARK_SIZE)
