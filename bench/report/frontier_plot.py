"""Draws step time against peak memory from `frontier_data`: two panels, a key of the frontier, and a caption."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas
import seaborn
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.report.compiled_plot import draw_legend_entry, draw_series
from bench.report.compiled_series import Series
from bench.report.families import FAMILIES, NONE, OTHER, PEER, PLANNED, mark_scale
from bench.report.frontier_data import FrontierData, Mark, Panel
from bench.report.key_block import (
    block_height,
    caption_lines,
    draw_caption,
    draw_failures,
    draw_heading,
    draw_key,
    failure_columns,
    key_columns,
)
from bench.report.label_layout import Box, Point, around, axis_shares, centred, leader, place_labels, spread_out
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
    style,
    text_width,
)

PANEL_HEIGHT = 2.7
PANEL_TOP = 0.42
"""Inches between the legend and a panel's frame: its title, and below it the notes on memory lines."""
AXIS_HEIGHT = 0.5
LEFT_AXIS_WIDTH = 0.55
BETWEEN_PANELS = 0.68
EMPTY_HEIGHT = 0.9
BLOCK_GAP = 0.1
LEGEND_LINE = 0.17
LEGEND_SIZE = SMALL + 0.5
FRONTIER_AREA = 42
DOMINATED_AREA = 20
TAG_SIZE = 7.5
TAGS_SHOWN = 40
"""More numbers than these cannot be told apart in a panel: some then stand at their marks, and all in the key."""
TAG_DISTANCE = 9.5
"""Points from a mark to its number."""
LEADER_DISTANCE = 13.0
"""Points from a mark beyond which a thin line leads to its number."""
LEADER_GAP = 3.0
TICK_STEPS = [1, 2, 5, 10]
MEMORY_LINE: dict[str, Any] = {"color": GREY, "lw": 1.0, "ls": (0, (4, 2))}

# Of seaborn's colour-blind palette (Okabe and Ito's), the colours that stand out on white; markers tell families apart
# where colour does not.
_PALETTE = ("blue", "orange", "green", "vermilion", "pink", "tan", "rose", "grey", "yellow", "sky")
_COLOURS = {
    "every block": "blue",
    "every k-th block": "sky",
    "leading blocks": "tan",
    "submodules": "green",
    "spans": "orange",
    "nested spans": "rose",
    "policies": "pink",
    "checkpoint options": "yellow",
    "all but the last blocks": "vermilion",
    OTHER: "grey",
}
_OWN_COLOURS = {NONE: INK, "explicit": "#4d4d4d", PLANNED: "#7a0177", PEER: "#737373"}
"""Planned placements stand out, and peers, of which there may be forty, stand back."""
_SHAPES = dict(zip(FAMILIES, ("D", "s", "o", "<", ">", "h", "v", "^", "P", "p", "d", "*", "H", "8"), strict=True))

Markers = Mapping[str, tuple[str, str]]
"""Family → colour and marker."""
Drawer = Callable[[Axes, float, float], None]
"""Draws a mark of the legend at a place on a page that is measured in inches."""


def family_markers() -> dict[str, tuple[str, str]]:
    """Family → colour and marker, the same in every plot."""
    palette = seaborn.color_palette("colorblind").as_hex()
    colours = {family: palette[_PALETTE.index(name)] for family, name in _COLOURS.items()} | _OWN_COLOURS
    return {family: (colours[family], _SHAPES[family]) for family in FAMILIES}


def draw_frontier(data: FrontierData, caption: str, beside: Sequence[Sequence[Series]] = ()) -> Figure:
    """The figure of a study's frontier; where nothing was measured it says so.

    Args:
        beside: what was compiled, as series of each panel.
    """
    with style():
        return _draw(data, caption, beside or [()] * len(data.panels))


def _draw(data: FrontierData, caption: str, beside: Sequence[Sequence[Series]]) -> Figure:
    markers = family_markers()
    legend = legend_drawers(data.families, has_knee(data.panels), beside[0] if beside else (), markers)
    rows = legend_rows(legend, PAGE_WIDTH)
    key, failures = key_columns(data), failure_columns(data)
    lines = caption_lines(" ".join(filter(None, (caption, _left_out(data)))))
    panel_top = MARGIN + len(rows) * LEGEND_LINE + PANEL_TOP
    key_top = panel_top + PANEL_HEIGHT + AXIS_HEIGHT if data.panels else MARGIN + EMPTY_HEIGHT
    failures_top = key_top + block_height(key) + (LINE + BLOCK_GAP if key else 0.0)
    failures_height = block_height(failures) + LINE + 0.1 if failures else 0.0
    caption_top = failures_top + failures_height + (BLOCK_GAP if failures else 0.0)
    figure, layer = new_page(caption_top + len(lines) * LINE + MARGIN)
    draw_legend(layer, legend, rows, MARGIN)
    for panel, (left, width), series in zip(data.panels, _panel_places(len(data.panels)), beside, strict=True):
        axes = add_panel(figure, left, panel_top, width, PANEL_HEIGHT)
        axes.set_title(panel.title, loc="left", pad=18, fontweight="bold")
        draw_panel(axes, panel, markers, series)
        _note_memory_lines(axes, panel)
    if data.headline:
        layer.text(PAGE_WIDTH / 2, MARGIN + EMPTY_HEIGHT / 2, data.headline, ha="center", va="center", fontsize=10)
    draw_key(layer, data, key, key_top, markers)
    if failures:
        layer.axhspan(failures_top, failures_top + failures_height, 0.01, 0.99, color="#f7f0f0", lw=0)
        draw_heading(layer, _failures_heading(data), failures_top + 0.04)
        draw_failures(layer, failures, failures_top + LINE + 0.06)
    draw_caption(layer, lines, caption_top)
    return figure


def draw_panel(
    axes: Axes, panel: Panel, markers: Markers, series: Sequence[Series] = (), mark_size: float = 1.0
) -> None:
    """All that stands inside a panel's frame, and its axes.

    Args:
        series: what was compiled.
        mark_size: width of marks over that on a page.
    """
    axes.set_xlim(*panel.x_limits)
    axes.set_ylim(*panel.y_limits)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=TICK_STEPS))
    if panel.is_relative:
        percent, ratio = (
            tick_decimals([100 * tick for tick in axes.get_xticks()]),
            tick_decimals([*axes.get_yticks()]),
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.{percent}f} %"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:.{ratio}f}"))
    seaborn.despine(ax=axes)
    _draw_steps(axes, panel)
    for line in panel.lines:
        if line.is_inside:
            axes.axvline(line.x, **MEMORY_LINE, zorder=1)
    _draw_marks(axes, panel, markers, mark_size)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _draw_tags(axes, panel, mark_size)
    draw_series(axes, series)


def has_knee(panels: Sequence[Panel]) -> bool:
    return any(mark.is_knee for panel in panels for mark in panel.marks)


def legend_drawers(
    families: Sequence[str], with_knee: bool, compiled: Sequence[Series], markers: Markers
) -> dict[str, Drawer]:
    """What the legend names, in its order, and how the mark of each is drawn."""
    drawers: dict[str, Drawer] = {family: functools.partial(_draw_family, family, markers) for family in families}
    if with_knee:
        drawers["knee"] = _draw_ring
    for label in sorted({series.label for series in compiled}):
        drawers[label] = functools.partial(_draw_compiled, label)
    return drawers


def legend_rows(names: Sequence[str] | Mapping[str, Drawer], width: float) -> list[list[tuple[str, float]]]:
    """The names with their place from the left, broken into rows of at most `width` inches."""
    rows: list[list[tuple[str, float]]] = []
    left = width
    for name in names:
        taken = 0.28 + text_width(name, LEGEND_SIZE)
        if left + taken > width - MARGIN:
            rows.append([])
            left = MARGIN + 0.06
        rows[-1].append((name, left))
        left += taken + 0.08
    return rows


def draw_legend(
    layer: Axes, drawers: Mapping[str, Drawer], rows: Sequence[Sequence[tuple[str, float]]], top: float
) -> None:
    for index, row in enumerate(rows):
        y = top + (index + 0.5) * LEGEND_LINE
        for name, left in row:
            drawers[name](layer, left, y)
            layer.text(left + 0.1, y, name, va="center_baseline", fontsize=LEGEND_SIZE, color=INK)


def _draw_family(family: str, markers: Markers, layer: Axes, x: float, y: float) -> None:
    colour, marker = markers[family]
    layer.plot(x, y, marker, color=colour, markersize=5 * mark_scale(family), mec="white", mew=0.4)


def _draw_ring(layer: Axes, x: float, y: float) -> None:
    layer.plot(x, y, "o", mfc="none", mec=INK, mew=0.9, markersize=7)


def _draw_compiled(label: str, layer: Axes, x: float, y: float) -> None:
    draw_legend_entry(layer, label, x, y)


def _failures_heading(data: FrontierData) -> str:
    return "Not scored" + (" (letters: measured, and not valid)" if any(f.tag for f in data.failures) else "")


def _left_out(data: FrontierData) -> str:
    """Says so where not all numbers stand at their marks."""
    num_tagged = max((sum(bool(mark.tag) for mark in panel.marks) for panel in data.panels), default=0)
    if num_tagged <= TAGS_SHOWN:
        return ""
    return f"{TAGS_SHOWN} of {num_tagged} numbers stand at their marks; the others are between them, in order."


def _panel_places(num_panels: int) -> list[tuple[float, float]]:
    room = PAGE_WIDTH - 2 * MARGIN - LEFT_AXIS_WIDTH - (num_panels - 1) * BETWEEN_PANELS
    width = room / max(num_panels, 1)
    return [(MARGIN + LEFT_AXIS_WIDTH + index * (width + BETWEEN_PANELS), width) for index in range(num_panels)]


def tick_decimals(ticks: Sequence[float]) -> int:
    """Decimals that tell neighbouring ticks apart."""
    step = min((b - a for a, b in itertools.pairwise(ticks)), default=1.0)
    return max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0


def _draw_steps(axes: Axes, panel: Panel) -> None:
    """The step line, and lightly what follows from it beyond its ends."""
    if not panel.steps:
        return
    xs, ys = zip(*panel.steps, strict=True)
    axes.plot(xs, ys, color=INK, lw=1.1, zorder=2, label="frontier")
    axes.plot([xs[0], xs[0]], [ys[0], panel.y_limits[1]], color=INK, lw=0.7, ls=":", zorder=2)
    axes.plot([xs[-1], panel.x_limits[1]], [ys[-1], ys[-1]], color=INK, lw=0.7, ls=":", zorder=2)


def _note_memory_lines(axes: Axes, panel: Panel) -> None:
    """Names of memory lines above the frame, where no mark can be; a line beyond the axis is an arrow there."""
    low, high = panel.x_limits
    for line in panel.lines:
        share = (line.x - low) / (high - low)
        text = line.label if line.is_inside else f"◂ {line.label}" if line.is_below else f"{line.label} ▸"
        share = share if line.is_inside else 0.0 if line.is_below else 1.0
        side = "left" if share < 0.35 else "right" if share > 0.65 else "center"
        place = {"left": max(share - 0.03, 0.0), "right": min(share + 0.03, 1.0), "center": share}[side]
        axes.annotate(
            text, (place, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", ha=side, va="bottom",
            fontsize=SMALL, color=GREY, annotation_clip=False,
        )  # fmt: skip


def _draw_marks(axes: Axes, panel: Panel, markers: Markers, mark_size: float) -> None:
    barred = [mark for mark in panel.marks if mark.y_high > mark.y_low]
    if barred:
        colours = [markers[mark.family][0] if mark.is_valid else FAILURE_COLOUR for mark in barred]
        xs, lows, highs = zip(*((mark.x, mark.y_low, mark.y_high) for mark in barred), strict=True)
        axes.vlines(xs, lows, highs, colors=colours, lw=1.0, zorder=2.5)
    looks = ((False, DOMINATED_AREA, "none", 0.65), (True, FRONTIER_AREA, "white", 1.0))
    scales = sorted({mark_scale(mark.family) for mark in panel.marks})
    for (on_frontier, area, edge, opacity), scale in itertools.product(looks, scales):
        frame = pandas.DataFrame(
            [
                (m.x, m.y, m.family)
                for m in panel.marks
                if m.is_valid and m.on_frontier == on_frontier and mark_scale(m.family) == scale
            ],
            columns=["x", "y", "family"],
        )
        if len(frame):
            seaborn.scatterplot(
                frame, x="x", y="y", hue="family", style="family", ax=axes, legend=False,
                s=area * (scale * mark_size) ** 2, alpha=opacity,
                edgecolor=edge, linewidth=0.6, zorder=3 + on_frontier,
                palette={family: colour for family, (colour, _) in markers.items()},
                markers={family: shape for family, (_, shape) in markers.items()},
            )  # fmt: skip
    for mark in panel.marks:
        if not mark.is_valid:
            axes.plot(mark.x, mark.y, "x", color=FAILURE_COLOUR, markersize=6 * mark_size, mew=1.4, zorder=4)
        if mark.is_knee:
            axes.plot(mark.x, mark.y, "o", mfc="none", mec=INK, mew=0.9, markersize=11 * mark_size, zorder=3.5)


def _draw_tags(axes: Axes, panel: Panel, mark_size: float) -> None:
    """Numbers beside the frontier's marks, with a thin line to the mark where they had to go far."""
    points = to_points(axes)
    tagged = tagged_marks(panel)
    corners = [points(*corner) for corner in panel.steps]
    obstacles = [box for mark in panel.marks for box in _boxes(mark, points, mark_size)]
    obstacles += [around(*start, *end, 1.0) for start, end in itertools.pairwise(corners)]
    sizes = [tag_size(mark.tag) for mark in tagged]
    bounds = frame_in_points(axes)
    lines = [points(line.x, 0)[0] for line in panel.lines if line.is_inside]
    obstacles += [around(x, bounds.bottom, x, bounds.top, 1.0) for x in lines]
    anchors = [points(mark.x, mark.y) for mark in tagged]
    centres = place_labels(anchors, sizes, obstacles, bounds, distance=TAG_DISTANCE * mark_size)
    leaders = []
    for mark, anchor, centre, size in zip(tagged, anchors, centres, sizes, strict=True):
        offset = (centre[0] - anchor[0], centre[1] - anchor[1])
        text = axes.annotate(
            mark.tag, (mark.x, mark.y), offset, textcoords="offset points", ha="center", va="center",
            fontsize=TAG_SIZE, fontweight="bold", color=INK if mark.is_valid else FAILURE_COLOUR, zorder=5,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=1.8, foreground="white")])
        if math.hypot(*offset) > LEADER_DISTANCE * mark_size:
            leaders.append(leader(anchor, centre, size, LEADER_GAP))
    draw_leaders(axes, leaders)


def draw_leaders(axes: Axes, leaders: Sequence[tuple[Point, Point]]) -> None:
    """Thin lines between places in points from the figure's corner; all of them are one artist, as arrows are slow."""
    back = axes.transData.inverted()
    pixels = axes.figure.dpi / 72
    lines = [back.transform([(x * pixels, y * pixels) for x, y in ends]) for ends in leaders]
    if lines:
        axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.6, zorder=4.5), autolim=False)


def to_points(axes: Axes) -> Callable[[float, float], Point]:
    """From a panel's units to points from the figure's lower left corner; its limits must be what they will be."""
    scale = 72 / axes.figure.dpi

    def points(x: float, y: float) -> Point:
        px, py = axes.transData.transform((x, y)) * scale
        return float(px), float(py)

    return points


def frame_in_points(axes: Axes) -> Box:
    frame, scale = axes.get_window_extent(), 72 / axes.figure.dpi
    return Box(*(float(value) * scale for value in (frame.x0, frame.y0, frame.x1, frame.y1)))


@functools.cache
def tag_size(tag: str) -> Point:
    """Width and height in points; measured once for all panels and files."""
    return 72 * text_width(tag, TAG_SIZE) + 2.5, TAG_SIZE + 0.5


def tagged_marks(panel: Panel) -> list[Mark]:
    """The marks whose tag is drawn: all, or where they are too many some that lie far apart, the knee and the
    frontier's ends among them."""
    tagged = [mark for mark in panel.marks if mark.tag]
    order = sorted((i for i, mark in enumerate(tagged) if mark.on_frontier), key=lambda i: tagged[i].x)
    always = [i for i, mark in enumerate(tagged) if mark.is_knee] + order[:1] + order[-1:]
    places = [axis_shares((mark.x, mark.y), panel.x_limits, panel.y_limits) for mark in tagged]
    return [tagged[i] for i in spread_out(places, TAGS_SHOWN, always)]


def _boxes(mark: Mark, points: Callable[[float, float], Point], mark_size: float) -> list[Box]:
    x, y = points(mark.x, mark.y)
    size = mark_size * (11.0 if mark.is_knee else 8.0 if mark.on_frontier or not mark.is_valid else 6.0)
    low, high = points(mark.x, mark.y_low)[1], points(mark.x, mark.y_high)[1]
    return [centred(x, y, size, size), Box(x - 1, low, x + 1, high)]
