"""Draws a comparison from `compare_data`: frontiers on common axes, and the candidates' times over the baseline's."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from bench.compare.types import NEITHER, ONLY_BASELINE, ONLY_CANDIDATE, Comparison
from bench.report.compare_data import CompareData, Course, Dot, Front, Panel, compare_data
from bench.report.frontier_plot import draw_leaders, frame_in_points, tick_decimals, to_points
from bench.report.label_layout import Box, Point, around, centred, leader, place_names
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
KEY_LINE, KEY_INDENT = 0.26, 0.5
STRIP_HEIGHT, STRIP_GAP = 0.13, 0.04
"""Inches of the strip of verdicts below a panel, one a candidate."""
NAME_SIZE = 7.5
NAME_DISTANCE = 9.5
"""Points from a mark to the middle of a short name beside it."""
LEADER_DISTANCE = 8.0
"""Points between a name and its mark beyond which a thin line joins them."""
LEADER_GAP = 3.0
LINE_MARGIN = 2.5
"""Points that a name keeps from lines."""
OTHER_SIDE, PER_POINT = 4.0, 1.5
"""A name may stand to either side of its line, as long as it is close: far from it, it would be another's."""
CLOSE = 14.0
"""Points between two marks within which a name beside one could be the other's."""
BOLD = 1.12
"""Width of bold letters over that of plain ones."""
# Neighbours differ in lightness too, so that they are told apart in grey print; shape and dashes differ for all.
_PALETTE = ("blue", "orange", "green", "vermilion", "pink", "tan", "rose", "grey", "yellow", "sky")
_COLOURS = ("orange", "blue", "sky", "green", "pink", "vermilion", "tan")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (6, 1.5, 1.5, 1.5), (3, 1.5), (9, 3))
VERDICT_COLOURS = {
    FASTER: "#1b7837",
    SLOWER: FAILURE_COLOUR,
    SAME: "#9aa7b1",
    UNCLEAR: "#e3e3e3",
    ONLY_CANDIDATE: "#a6dba0",
    ONLY_BASELINE: "#e8b4a8",
    NEITHER: "white",
}


@dataclass(frozen=True, kw_only=True)
class StudyLook:
    colour: str
    marker: str
    dashes: tuple[float, ...]
    """Lengths in line widths, drawn and left out in turn; empty for a whole line."""


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
            axes.set_title(panel.title, loc="left", pad=6, fontweight="bold")
            draw_fronts(axes, panel, {front.label: front.label for front in panel.fronts})
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
            axes.set_title(panel.title, loc="left", pad=6, fontweight="bold")
            _frame(axes, panel)
            axes.axhline(1.0, color=INK, lw=0.8, zorder=1.5)
            for row, course in enumerate(panel.courses):
                _draw_course(axes, course)
                _draw_strip(layer, course, panel, left, width, strip_top + row * (STRIP_HEIGHT + STRIP_GAP))
        _draw_verdict_legend(layer, data, legend_top)
        return figure


def draw_fronts(axes: Axes, panel: Panel, names: Mapping[str, str]) -> None:
    """The frontiers of a panel, each with its name beside its line.

    Args:
        names: label of a study → what is written.
    """
    _frame(axes, panel)
    for front in panel.fronts:
        _draw_front(axes, front, panel)
    _draw_names(axes, panel, names)


def study_look(index: int) -> StudyLook:
    """Of a study, the same in every figure; the baseline is a black whole line."""
    palette = seaborn.color_palette("colorblind").as_hex()
    name = _COLOURS[(index - 1) % len(_COLOURS)]
    return StudyLook(
        colour=INK if index == 0 else palette[_PALETTE.index(name)],
        marker=SHAPES[index % len(SHAPES)],
        dashes=DASHES[index % len(DASHES)],
    )


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
        look = study_look(row.index)
        ends = [MARGIN, MARGIN + KEY_LINE]
        layer.plot(ends, [y, y], color=look.colour, lw=1.1, ls=_line_style(look))
        layer.plot(sum(ends) / 2, y, look.marker, color=look.colour, markersize=4.5, mec="white", mew=0.4)
        write(layer, MARGIN + KEY_LINE + 0.07, y, row.label, weight="bold")
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
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if panel.is_relative:
        decimals = tick_decimals([100 * tick for tick in axes.get_xticks()])
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=decimals, symbol=" %"))
    if panel.is_relative or panel.courses:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:.4g}"))
    seaborn.despine(ax=axes)
    for x in panel.budgets:
        axes.axvline(x, color=GREY, lw=0.8, ls=(0, (1, 2)), zorder=1)


def _draw_front(axes: Axes, front: Front, panel: Panel) -> None:
    look = study_look(front.index)
    colour = look.colour
    if front.steps:
        xs, ys = zip(*front.steps, strict=True)
        axes.plot(xs, ys, color=colour, lw=1.1, ls=_line_style(look), zorder=2)
        axes.plot([xs[0], xs[0]], [ys[0], panel.y_limits[1]], color=colour, lw=0.7, ls=":", zorder=2)
        axes.plot([xs[-1], panel.x_limits[1]], [ys[-1], ys[-1]], color=colour, lw=0.7, ls=":", zorder=2)
    barred = [dot for dot in front.dots if dot.on_frontier]
    if barred:
        dots, lows, highs = zip(*((dot.x, dot.y_low, dot.y_high) for dot in barred), strict=True)
        axes.vlines(dots, lows, highs, color=colour, lw=1.0, zorder=2.5)
    for is_on, size, edge, opacity in ((False, 3.5, "none", 0.4), (True, 6.0, "white", 1.0)):
        places = [(dot.x, dot.y) for dot in front.dots if dot.on_frontier == is_on]
        if places:
            axes.plot(
                *zip(*places, strict=True), look.marker, color=colour, markersize=size, mec=edge, mew=0.5,
                alpha=opacity, zorder=3,
            )  # fmt: skip
    for dot in front.dots:
        if dot.is_knee:
            axes.plot(dot.x, dot.y, "o", mfc="none", mec=colour, mew=0.9, markersize=11, zorder=3.5)


def _line_style(look: StudyLook) -> Any:
    return (0, look.dashes) if look.dashes else "-"


def _draw_names(axes: Axes, panel: Panel, names: Mapping[str, str]) -> None:
    """Names beside the lines, in their colour, where nothing else is; a thin line joins one that had to go far."""
    points = to_points(axes)
    named = [front for front in panel.fronts if front.steps]
    obstacles = [box for front in panel.fronts for dot in front.dots for box in _boxes(dot, points)]
    for front in named:
        corners = [points(*corner) for corner in front.steps]
        obstacles += [around(*start, *end, LINE_MARGIN) for start, end in itertools.pairwise(corners)]
    dots = {front.label: _free_dots(front, named, points) for front in named}
    anchors = [[points(dot.x, dot.y) for dot in dots[front.label]] for front in named]
    sizes = [_name_size(names[front.label]) for front in named]
    places = place_names(
        anchors, sizes, obstacles, frame_in_points(axes), NAME_DISTANCE, other_side=OTHER_SIDE, per_point=PER_POINT
    )
    leaders = []
    for front, own, size, place in zip(named, anchors, sizes, places, strict=True):
        anchor = own[place.anchor]
        dx, dy = place.centre[0] - anchor[0], place.centre[1] - anchor[1]
        dot = dots[front.label][place.anchor]
        text = axes.annotate(
            names[front.label], (dot.x, dot.y), (dx, dy), textcoords="offset points", ha="center", va="center",
            fontsize=NAME_SIZE, fontweight="bold", color=study_look(front.index).colour, zorder=5,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=1.8, foreground="white")])
        if math.hypot(max(abs(dx) - size[0] / 2, 0), max(abs(dy) - size[1] / 2, 0)) > LEADER_DISTANCE:
            leaders.append(leader(anchor, place.centre, size, LEADER_GAP))
    draw_leaders(axes, leaders)


def _free_dots(front: Front, fronts: Sequence[Front], points: Callable[[float, float], Point]) -> list[Dot]:
    """Of its frontier those that no other study's is close to, such as the references that meet at 100 % and ×1; all
    where there is no such."""
    others = [points(dot.x, dot.y) for other in fronts if other is not front for dot in other.dots if dot.on_frontier]
    own = [dot for dot in front.dots if dot.on_frontier]
    free = [dot for dot in own if all(math.dist(points(dot.x, dot.y), other) > CLOSE for other in others)]
    return free or own


def _boxes(dot: Dot, points: Callable[[float, float], Point]) -> list[Box]:
    """What a name should not cover: the mark, and on a frontier its interval."""
    x, y = points(dot.x, dot.y)
    if not dot.on_frontier:
        return [centred(x, y, 4.5, 4.5)]
    size = 11.0 if dot.is_knee else 7.0
    return [centred(x, y, size, size), Box(x - 1, points(0, dot.y_low)[1], x + 1, points(0, dot.y_high)[1])]


@functools.cache
def _name_size(name: str) -> Point:
    """Width and height in points."""
    return 72 * text_width(name, NAME_SIZE) * BOLD + 2.5, NAME_SIZE + 0.5


def _draw_course(axes: Axes, course: Course) -> None:
    look = study_look(course.index)
    colour = look.colour
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
        axes.plot([band.low, band.high], [band.ratio, band.ratio], color=colour, lw=1.4, ls=_line_style(look), zorder=2)
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
