"""Draws a comparison from `compare_data`: frontiers on common axes, and the candidates' times over the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from bench.compare.types import NEITHER, ONLY_BASELINE, ONLY_CANDIDATE, Comparison
from bench.report.compare_data import CompareData, Course, Front, Panel, compare_data
from bench.report.page import (
    FAILURE_COLOUR,
    GREY,
    INK,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    SMALL,
    add_panel,
    new_page,
    save,
    style,
    text_width,
    wrap,
    write,
)
from bench.stats.verdict import FASTER, SAME, SLOWER, UNCLEAR

PLOTS_FOLDER = "plots"
PANEL_HEIGHT, PANEL_TOP, AXIS_HEIGHT = 2.7, 0.3, 0.5
LEFT_AXIS_WIDTH, BETWEEN_PANELS = 0.55, 0.68
EMPTY_HEIGHT = 0.9
KEY_INDENT = 0.34
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p")
STRIP_HEIGHT, STRIP_GAP = 0.13, 0.04
"""Inches of the strip of verdicts below a panel, one a candidate."""
VERDICT_COLOURS = {
    FASTER: "#1b7837",
    SLOWER: FAILURE_COLOUR,
    SAME: "#9aa7b1",
    UNCLEAR: "#e3e3e3",
    ONLY_CANDIDATE: "#a6dba0",
    ONLY_BASELINE: "#e8b4a8",
    NEITHER: "white",
}


def write_comparison_plots(directory: Path, comparison: Comparison) -> list[Path]:
    """Writes `plots/frontiers` and `plots/ratios` as PNG and SVG and returns their paths; the second only where two
    studies meet."""
    data, plots = compare_data(comparison), directory / PLOTS_FOLDER
    paths = save(draw_frontiers(data), plots, "frontiers")
    if data.courses:
        paths += save(draw_ratios(data), plots, "ratios")
    return paths


def draw_frontiers(data: CompareData) -> Figure:
    """All frontiers on common axes; where nothing was measured it says so."""
    with style():
        top = MARGIN + PANEL_TOP
        below = top + PANEL_HEIGHT + AXIS_HEIGHT if data.fronts else MARGIN + EMPTY_HEIGHT
        figure, layer = _page(data, below, data.sentences)
        for panel, (left, width) in zip(data.fronts, _places(len(data.fronts)), strict=True):
            axes = add_panel(figure, left, top, width, PANEL_HEIGHT)
            _frame(axes, panel)
            for front in panel.fronts:
                _draw_front(axes, front, panel)
        if data.headline:
            layer.text(PAGE_WIDTH / 2, MARGIN + EMPTY_HEIGHT / 2, data.headline, ha="center", va="center", fontsize=10)
        return figure


def draw_ratios(data: CompareData) -> Figure:
    """For every memory budget, each candidate's fastest step over the baseline's, and the verdict on it."""
    with style():
        num_strips = max((len(panel.courses) for panel in data.courses), default=0)
        strips = num_strips * (STRIP_HEIGHT + STRIP_GAP) + 0.1
        top = MARGIN + PANEL_TOP
        strip_top = top + PANEL_HEIGHT + AXIS_HEIGHT
        legend_top = strip_top + strips
        figure, layer = _page(data, legend_top + LINE + 0.1, data.sentences)
        for panel, (left, width) in zip(data.courses, _places(len(data.courses)), strict=True):
            axes = add_panel(figure, left, top, width, PANEL_HEIGHT)
            _frame(axes, panel)
            axes.axhline(1.0, color=INK, lw=0.8, zorder=1.5)
            for row, course in enumerate(panel.courses):
                _draw_course(axes, course)
                _draw_strip(layer, course, panel, left, width, strip_top + row * (STRIP_HEIGHT + STRIP_GAP))
        _draw_verdict_legend(layer, data, legend_top)
        return figure


def study_look(index: int) -> tuple[str, str]:
    """(colour, marker) of a study, the same in every figure; the baseline is black."""
    palette = seaborn.color_palette("colorblind").as_hex()
    colour = INK if index == 0 else palette[(index - 1) % len(palette)]
    return colour, SHAPES[index % len(SHAPES)]


def _page(data: CompareData, below: float, sentences: Sequence[str]) -> tuple[Figure, Axes]:
    """A page with the key of studies, sentences and the caption under `below` inches."""
    width = PAGE_WIDTH - 2 * MARGIN
    key = [wrap(row.text, width - KEY_INDENT) for row in data.key]
    told = [line for sentence in sentences for line in wrap(sentence, width)]
    caption = wrap(data.caption, width)
    height = below + (sum(map(len, key)) + len(told) + len(caption)) * LINE + 0.16 + MARGIN
    figure, layer = new_page(height)
    y = below + 0.5 * LINE
    for row, lines in zip(data.key, key, strict=True):
        colour, marker = study_look(row.index)
        layer.plot(MARGIN + 0.06, y, marker, color=colour, markersize=4.5, mec="white", mew=0.4)
        write(layer, MARGIN + 0.16, y, row.label, weight="bold")
        for line in lines:
            write(layer, MARGIN + KEY_INDENT, y, line)
            y += LINE
    y += 0.08
    for line in told:
        write(layer, MARGIN, y, line)
        y += LINE
    y += 0.08
    for line in caption:
        write(layer, MARGIN, y, line, color=GREY)
        y += LINE
    return figure, layer


def _places(num_panels: int) -> list[tuple[float, float]]:
    room = PAGE_WIDTH - 2 * MARGIN - LEFT_AXIS_WIDTH - (num_panels - 1) * BETWEEN_PANELS
    width = room / max(num_panels, 1)
    return [(MARGIN + LEFT_AXIS_WIDTH + index * (width + BETWEEN_PANELS), width) for index in range(num_panels)]


def _frame(axes: Axes, panel: Panel) -> None:
    axes.set_xlim(*panel.x_limits)
    axes.set_ylim(*panel.y_limits)
    axes.set_title(panel.title, loc="left", pad=6, fontweight="bold")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if panel.is_relative:
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    if panel.is_relative or panel.courses:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:.4g}"))
    seaborn.despine(ax=axes)
    for x in panel.budgets:
        axes.axvline(x, color=GREY, lw=0.8, ls=(0, (1, 2)), zorder=1)


def _draw_front(axes: Axes, front: Front, panel: Panel) -> None:
    colour, marker = study_look(front.index)
    if front.steps:
        xs, ys = zip(*front.steps, strict=True)
        axes.plot(xs, ys, color=colour, lw=1.1, zorder=2)
        axes.plot([xs[0], xs[0]], [ys[0], panel.y_limits[1]], color=colour, lw=0.7, ls=":", zorder=2)
        axes.plot([xs[-1], panel.x_limits[1]], [ys[-1], ys[-1]], color=colour, lw=0.7, ls=":", zorder=2)
    for dot in front.dots:
        if dot.on_frontier:
            axes.vlines(dot.x, dot.y_low, dot.y_high, color=colour, lw=1.0, zorder=2.5)
        size, edge, opacity = (6.0, "white", 1.0) if dot.on_frontier else (3.5, "none", 0.4)
        axes.plot(dot.x, dot.y, marker, color=colour, markersize=size, mec=edge, mew=0.5, alpha=opacity, zorder=3)
        if dot.is_knee:
            axes.plot(dot.x, dot.y, "o", mfc="none", mec=colour, mew=0.9, markersize=11, zorder=3.5)


def _draw_course(axes: Axes, course: Course) -> None:
    colour, _ = study_look(course.index)
    before: float | None = None
    for band in course.bands:
        if band.ratio is None:
            before = None
            continue
        if band.ratio_low is not None and band.ratio_high is not None:
            axes.fill_between(
                [band.low, band.high], band.ratio_low, band.ratio_high, color=colour, alpha=0.16, lw=0, zorder=1.2
            )
        if before is not None:
            axes.plot([band.low, band.low], [before, band.ratio], color=colour, lw=0.7, zorder=2)
        axes.plot([band.low, band.high], [band.ratio, band.ratio], color=colour, lw=1.4, zorder=2)
        before = band.ratio


def _draw_strip(layer: Axes, course: Course, panel: Panel, left: float, width: float, top: float) -> None:
    """Verdicts along the memory axis of the panel above, on the layer that is measured in inches."""
    low, high = panel.x_limits

    def inches(x: float) -> float:
        return left + width * (min(max(x, low), high) - low) / (high - low)

    for band in course.bands:
        start, end = inches(band.low), inches(band.high)
        layer.add_patch(Rectangle((start, top), end - start, STRIP_HEIGHT, color=VERDICT_COLOURS[band.verdict], lw=0))
    write(layer, left - 0.06, top + STRIP_HEIGHT / 2, course.label, ha="right", weight="bold")


def _draw_verdict_legend(layer: Axes, data: CompareData, top: float) -> None:
    """The verdicts that the strips show."""
    shown = {band.verdict for panel in data.courses for course in panel.courses for band in course.bands}
    x, y = MARGIN + LEFT_AXIS_WIDTH, top + 0.5 * LINE
    for verdict, colour in VERDICT_COLOURS.items():
        if verdict in shown:
            layer.add_patch(Rectangle((x, y - 0.045), 0.14, 0.09, facecolor=colour, edgecolor=GREY, lw=0.3))
            write(layer, x + 0.19, y, verdict)
            x += 0.19 + text_width(verdict, SMALL) + 0.2
