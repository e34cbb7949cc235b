"""Draws a study's frontier for print: one panel with shares below and left, sizes and times above and right, and a key.

Both scales fit one panel since absolute times are the reference's times the ratio, so that two panels would show one
picture twice. In one column the key stands under the panel, in two beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bench.report.compiled_series import Series
from bench.report.frontier_plot import (
    LEGEND_LINE,
    MEMORY_LINE,
    TICK_STEPS,
    Drawer,
    draw_legend,
    draw_panel,
    family_markers,
    has_knee,
    legend_drawers,
    legend_rows,
)
from bench.report.page import FAILURE_COLOUR, add_panel, style
from bench.report.publication_data import PublicationData, Scale
from bench.report.publication_key import KeyText, draw_key_texts, key_height, key_texts, taken_width
from bench.report.publication_page import EDGE, WIDTHS, new_sheet

LEFT_AXIS, RIGHT_AXIS, TOP_AXIS, BOTTOM_AXIS = 0.55, 0.5, 0.42, 0.42
"""Inches that ticks, numbers and names of axes take."""
NO_AXIS = 0.1
MARK_SIZE = 0.78
"""Of marks over those of a plot for a screen, whose panel is as wide as a column."""
PANEL_HEIGHTS = {1: 1.95, 2: 2.2}
LEAST_PANEL_WIDTH = 2.75
GAP = 0.1
EMPTY_HEIGHT = 0.9
INVALID = "not valid"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Inches from the top left of the sheet."""

    width: float
    height: float
    panel_left: float
    panel_top: float
    panel_width: float
    panel_height: float
    key_left: float
    key_top: float
    key_width: float
    key: list[KeyText]


def draw_for_print(data: PublicationData, columns: int, series: Sequence[Series] = ()) -> Figure:
    """A figure exactly as wide as `columns` columns; where nothing was measured it says so.

    Args:
        series: what was compiled, in the units of the data's panel.
    """
    with style():
        if data.panel is None:
            return _draw_empty(data.headline, columns)
        markers = family_markers()
        legend = legend_drawers(data.families, has_knee([data.panel]), series, markers) | _more_drawers(data)
        rows = legend_rows(legend, WIDTHS[columns])
        layout = _layout(data, columns, len(rows) * LEGEND_LINE)
        figure, layer = new_sheet(layout.width, layout.height)
        draw_legend(layer, legend, rows, EDGE)
        axes = add_panel(figure, layout.panel_left, layout.panel_top, layout.panel_width, layout.panel_height)
        draw_panel(axes, data.panel, markers, series, MARK_SIZE)
        _draw_scale(axes, "top", data.memory)
        _draw_scale(axes, "right", data.time)
        draw_key_texts(layer, layout.key, layout.key_left, layout.key_top, layout.key_width, markers)
        return figure


def _draw_empty(headline: str, columns: int) -> Figure:
    width = WIDTHS[columns]
    figure, layer = new_sheet(width, EMPTY_HEIGHT)
    layer.text(width / 2, EMPTY_HEIGHT / 2, headline, ha="center", va="center", fontsize=8)
    return figure


def _layout(data: PublicationData, columns: int, legend_height: float) -> Layout:
    width, panel_height = WIDTHS[columns], PANEL_HEIGHTS[columns]
    panel_top = EDGE + legend_height + (TOP_AXIS if data.memory else NO_AXIS)
    right = RIGHT_AXIS if data.time else NO_AXIS
    bottom = panel_top + panel_height + BOTTOM_AXIS
    room = width - EDGE - LEFT_AXIS - right
    if columns == 1:
        panel_width, key_left, key_top, key_width = room, EDGE, bottom + GAP, width - 2 * EDGE
        key = key_texts(data, key_width)
    else:
        # The panel takes what the key leaves; names that are too long for what is left break.
        most = room - LEAST_PANEL_WIDTH - GAP - EDGE
        key = key_texts(data, most)
        key_width = taken_width(key, most)
        panel_width = room - GAP - key_width - EDGE
        key_left, key_top = width - EDGE - key_width, EDGE + legend_height + GAP
    return Layout(
        width=width,
        height=max(bottom, key_top + key_height(key)) + EDGE,
        panel_left=EDGE + LEFT_AXIS,
        panel_top=panel_top,
        panel_width=panel_width,
        panel_height=panel_height,
        key_left=key_left,
        key_top=key_top,
        key_width=key_width,
        key=key,
    )


def _more_drawers(data: PublicationData) -> dict[str, Drawer]:
    drawers: dict[str, Drawer] = {INVALID: _draw_cross} if data.has_invalid else {}
    return drawers | {line.label: _draw_dashes for line in data.lines_inside}


def _draw_cross(layer: Axes, x: float, y: float) -> None:
    layer.plot(x, y, "x", color=FAILURE_COLOUR, markersize=4.5, mew=1.2)


def _draw_dashes(layer: Axes, x: float, y: float) -> None:
    layer.plot([x - 0.06, x + 0.07], [y, y], **(MEMORY_LINE | {"ls": (0, (2.5, 1.5))}))


def _draw_scale(axes: Axes, side: str, scale: Scale | None) -> None:
    """A second axis on the far side, without a grid of its own."""
    if scale is None:
        return
    factor = scale.factor
    functions = (lambda value: value * factor, lambda value: value / factor)
    place: Any = axes.secondary_xaxis if side == "top" else axes.secondary_yaxis
    other = place(side, functions=functions)
    axis = other.xaxis if side == "top" else other.yaxis
    axis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS))
    axis.set_label_text(scale.label)
    axis.labelpad = 3
