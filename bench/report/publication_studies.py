"""Draws several studies' frontiers for print, by what draws a comparison's; each name stands at its own line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from matplotlib.figure import Figure

from bench.report.compare_data import CompareData
from bench.report.compare_plot import draw_fronts
from bench.report.page import add_panel, style
from bench.report.publication_page import EDGE, WIDTHS, new_sheet

LEFT_AXIS, BOTTOM_AXIS, TITLE = 0.6, 0.42, 0.24
"""Inches that ticks, numbers and names of axes take, and a panel's title."""
PANEL_HEIGHTS = {1: 2.0, 2: 2.3}
BETWEEN = 0.12
RIGHT_EDGE = 0.12
"""Inches of free space for half of the last number."""
EMPTY_HEIGHT = 0.9


def draw_studies_for_print(data: CompareData, names: Mapping[str, str], columns: int) -> Figure:
    """A figure exactly as wide as `columns` columns: panels under each other in one, beside each other in two.

    Args:
        data: of a comparison.
        names: label of a study → what stands at its line.
    """
    with style():
        width, height, panels = WIDTHS[columns], PANEL_HEIGHTS[columns], len(data.fronts)
        if not panels:
            figure, layer = new_sheet(width, EMPTY_HEIGHT)
            layer.text(width / 2, EMPTY_HEIGHT / 2, data.headline, ha="center", va="center", fontsize=8, wrap=True)
            return figure
        per_row = min(columns, panels)
        num_rows = -(-panels // per_row)
        pitch_x, pitch_y = (width - EDGE) / per_row, TITLE + height + BOTTOM_AXIS + BETWEEN
        figure, _ = new_sheet(width, EDGE + num_rows * pitch_y - BETWEEN + EDGE)
        for index, panel in enumerate(data.fronts):
            row, column = divmod(index, per_row)
            left, top = EDGE + column * pitch_x + LEFT_AXIS, EDGE + row * pitch_y + TITLE
            axes = add_panel(figure, left, top, pitch_x - LEFT_AXIS - RIGHT_EDGE, height)
            axes.set_title(panel.title, loc="left", pad=5, fontweight="bold")
            draw_fronts(axes, dataclasses.replace(panel, budgets=()), names)
        return figure
