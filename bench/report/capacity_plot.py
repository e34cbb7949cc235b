"""Draws throughput against size from `capacity_data`, with second axes relative to `none`, a key, and a caption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.report.capacity_blocks import draw_key, draw_not_shown, key_block, not_shown_block
from bench.report.capacity_data import CapacityData, Mark
from bench.report.families import mark_scale
from bench.report.frontier_plot import (
    LEADER_DISTANCE,
    LEADER_GAP,
    LEGEND_LINE,
    TAG_DISTANCE,
    TAG_SIZE,
    TICK_STEPS,
    draw_leaders,
    draw_legend,
    family_markers,
    frame_in_points,
    legend_drawers,
    legend_rows,
    tag_size,
    to_points,
)
from bench.report.key_block import caption_lines, draw_caption
from bench.report.label_layout import Box, Point, around, centred, leader, place_labels
from bench.report.page import GREY, INK, LINE, MARGIN, PAGE_WIDTH, add_panel, new_page, style

PANEL_HEIGHT = 3.0
TITLE_HEIGHT, UPPER_AXIS_HEIGHT, LOWER_AXIS_HEIGHT = 0.24, 0.46, 0.5
LEFT_AXIS_WIDTH, RIGHT_AXIS_WIDTH = 0.68, 0.72
EMPTY_HEIGHT = 0.9
BLOCK_GAP = 0.1


def draw_capacity(data: CapacityData) -> Figure:
    """The figure of the second frontier; where nothing was timed it says so."""
    with style():
        return _draw(data)


def _draw(data: CapacityData) -> Figure:
    key, others, lines = key_block(data), not_shown_block(data.not_shown), caption_lines(data.caption)
    legend = legend_drawers(data.families, False, (), family_markers())
    rows = legend_rows(legend, PAGE_WIDTH)
    panel_top = MARGIN + TITLE_HEIGHT + (UPPER_AXIS_HEIGHT if data.none_size is not None else 0.1)
    legend_top = panel_top + PANEL_HEIGHT + LOWER_AXIS_HEIGHT if data.marks else MARGIN + EMPTY_HEIGHT
    key_top = legend_top + len(rows) * LEGEND_LINE + 0.04
    others_top = key_top + key.height + BLOCK_GAP
    caption_top = others_top + (others.height + BLOCK_GAP if others.height else 0.0)
    figure, layer = new_page(caption_top + len(lines) * LINE + MARGIN)
    layer.text(MARGIN, MARGIN + 0.1, data.title, va="center", fontsize=8.5, fontweight="bold", color=INK)
    if data.marks:
        width = PAGE_WIDTH - 2 * MARGIN - LEFT_AXIS_WIDTH - RIGHT_AXIS_WIDTH
        _draw_panel(add_panel(figure, MARGIN + LEFT_AXIS_WIDTH, panel_top, width, PANEL_HEIGHT), data)
    else:
        layer.text(PAGE_WIDTH / 2, MARGIN + EMPTY_HEIGHT / 2, data.headline, ha="center", va="center", fontsize=10)
    draw_legend(layer, legend, rows, legend_top)
    draw_key(layer, data, key, key_top)
    draw_not_shown(layer, others, "Without a mark", others_top)
    draw_caption(layer, lines, caption_top)
    return figure


def _draw_panel(axes: Axes, data: CapacityData) -> None:
    axes.set_xlim(*data.x_limits)
    axes.set_ylim(*data.y_limits)
    axes.set_xlabel(data.x_label)
    axes.set_ylabel(data.y_label)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=TICK_STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    is_relative = data.none_size is not None and data.none_rate is not None
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if is_relative:
        _add_relative_axes(axes, data)
    _draw_lines(axes, data)
    _draw_marks(axes, data)
    _draw_tags(axes, data)


def _add_relative_axes(axes: Axes, data: CapacityData) -> None:
    """Above: times none's size; to the right: shares of its throughput."""
    none_size, none_rate = data.none_size, data.none_rate
    assert none_size is not None
    assert none_rate is not None
    upper = axes.secondary_xaxis("top", functions=_scaled(none_size))
    upper.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]))
    upper.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:g}"))
    upper.set_xlabel("Times none's largest", labelpad=4)
    right = axes.secondary_yaxis("right", functions=_scaled(none_rate))
    right.yaxis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS))
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    right.set_ylabel("Of none's throughput at its own largest")
    # What is right of none's mark is larger, what is above it has more throughput as well.
    axes.axhline(none_rate, color=GREY, lw=0.8, ls=(0, (4, 2)), zorder=1)
    axes.axvline(none_size, color=GREY, lw=0.8, ls=(0, (4, 2)), zorder=1)
    for size in data.multiples:
        axes.axvline(size, color=GREY, lw=0.8, ls=(0, (1, 2)), zorder=1)


def _scaled(unit: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """To multiples of `unit`, and back."""
    return lambda value: value / unit, lambda value: value * unit


def _draw_lines(axes: Axes, data: CapacityData) -> None:
    """The frontier's steps, lightly what follows from it beyond its ends, and how single placements go."""
    for trace in data.traces:
        xs, ys = zip(*trace, strict=True)
        axes.plot(xs, ys, color=GREY, lw=0.6, zorder=1.5)
    if not data.steps:
        return
    xs, ys = zip(*data.steps, strict=True)
    axes.plot(xs, ys, color=INK, lw=1.1, zorder=2, label="frontier")
    axes.plot([data.x_limits[0], xs[0]], [ys[0], ys[0]], color=INK, lw=0.7, ls=":", zorder=2)
    axes.plot([xs[-1], xs[-1]], [ys[-1], data.y_limits[0]], color=INK, lw=0.7, ls=":", zorder=2)


def _draw_marks(axes: Axes, data: CapacityData) -> None:
    markers = family_markers()
    for mark in data.marks:
        colour, shape = markers[mark.family]
        if mark.rate_high > mark.rate_low:
            axes.vlines(mark.size, mark.rate_low, mark.rate_high, color=colour, lw=1.0, zorder=2.5)
        size = (6.5 if mark.on_frontier or mark.is_none else 4.5) * mark_scale(mark.family)
        axes.plot(
            mark.size,
            mark.rate,
            shape,
            mfc=colour if mark.is_largest else "white",
            mec="white" if mark.is_largest else colour,
            mew=0.5 if mark.is_largest else 1.0,
            markersize=size,
            zorder=3 + mark.on_frontier,
        )


def _draw_tags(axes: Axes, data: CapacityData) -> None:
    """Numbers beside the frontier's marks, and none's name. Nothing that was timed lies above and to the right of the
    frontier, so labels are placed in the plane turned about its origin, where the layout tries that side first."""
    points = to_points(axes)

    def turned(x: float, y: float) -> Point:
        return _turned(points(x, y))

    tagged = [mark for mark in data.marks if mark.tag]
    corners = [turned(*corner) for corner in data.steps]
    obstacles = [box for mark in data.marks for box in _boxes(mark, turned)]
    obstacles += [around(*start, *end, 1.0) for start, end in itertools.pairwise(corners)]
    sizes = [tag_size(mark.tag) for mark in tagged]
    frame = frame_in_points(axes)
    bounds = Box(-frame.right, -frame.top, -frame.left, -frame.bottom)
    anchors = [turned(mark.size, mark.rate) for mark in tagged]
    centres = place_labels(anchors, sizes, obstacles, bounds, distance=TAG_DISTANCE)
    leaders = []
    for mark, anchor, centre, size in zip(tagged, anchors, centres, sizes, strict=True):
        offset = (anchor[0] - centre[0], anchor[1] - centre[1])
        text = axes.annotate(
            mark.tag, (mark.size, mark.rate), offset, textcoords="offset points", ha="center", va="center",
            fontsize=TAG_SIZE, fontweight="bold", color=INK, zorder=5,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=1.8, foreground="white")])
        if math.hypot(*offset) > LEADER_DISTANCE:
            leaders.append(leader(_turned(anchor), _turned(centre), size, LEADER_GAP))
    draw_leaders(axes, leaders)


def _turned(point: Point) -> Point:
    return -point[0], -point[1]


def _boxes(mark: Mark, points: Callable[[float, float], Point]) -> list[Box]:
    x, y = points(mark.size, mark.rate)
    size = 8.0 if mark.on_frontier or mark.is_none else 6.0
    high, low = points(mark.size, mark.rate_low)[1], points(mark.size, mark.rate_high)[1]
    return [centred(x, y, size, size), Box(x - 1, low, x + 1, high)]
