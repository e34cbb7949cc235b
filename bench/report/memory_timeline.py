"""Draws the memory of one step: what is allocated, by category, from its beginning to its end."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from bench.explain.words import share_text
from bench.report.key_block import caption_lines, draw_caption
from bench.report.memory_colours import COLOURS
from bench.report.memory_data import MemoryData, Stack, memory_data
from bench.report.memory_marks import (
    LANE_HEIGHT,
    MODULES_HEIGHT,
    PHASES_HEIGHT,
    draw_modules,
    draw_passes,
    draw_phases,
    num_lanes,
)
from bench.report.memory_modules import ModuleRun, module_runs
from bench.report.memory_words import amount, caption, moment, peak_of, small_amount
from bench.report.page import (
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
    wrap,
    write,
)
from bench.report.quantities import Unit, memory_unit
from bench.trace.categories import CATEGORIES
from bench.trace.log import StepLog

PANEL_LEFT = 0.72
PANEL_HEIGHT = 2.7
TITLE_SIZE = 8.5
"""Points."""
TITLE_LINE = 1.2 * LINE
"""Inches."""
TITLE_WIDTH = (PAGE_WIDTH - 2 * MARGIN) / 1.16
"""Inches, as measured for letters that are not bold."""
SWATCH = 0.13
HEADROOM = 1.08
"""Of the panel over the peak."""
LEAST_SHARE = 0.002
"""Of the peak: a category that is never more is too thin to be seen."""


def memory_timeline(log: StepLog, *, title: str = "") -> Figure:
    """The figure of one step's memory."""
    data = memory_data(log)
    with style():
        return _draw(data, module_runs(log, data.axis), title or f"{data.model}, {data.placement}")


def _draw(data: MemoryData, modules: tuple[ModuleRun, ...], title: str) -> Figure:
    unit = memory_unit([data.peak.bytes])
    headings = title_lines(title)
    legend = _legend_rows(data, unit)
    text = caption_lines(caption(data, unit))
    peak_lines = wrap(_peak_text(data, unit), PAGE_WIDTH - 2 * MARGIN)
    legend_top = MARGIN + len(headings) * TITLE_LINE + len(peak_lines) * LINE + 0.06
    top = legend_top + len(legend) * LINE * 1.1 + 0.08 + PHASES_HEIGHT
    lanes = num_lanes(data.passes) * LANE_HEIGHT
    caption_top = top + PANEL_HEIGHT + 0.03 + lanes + MODULES_HEIGHT + 0.06
    figure, layer = new_page(caption_top + len(text) * LINE + MARGIN)
    peak_top = draw_title(layer, headings) + 0.02
    for index, line in enumerate(peak_lines):
        y = peak_top + (index + 0.5) * LINE
        write(layer, MARGIN, y, line)
    _draw_legend(layer, legend, legend_top)
    width = PAGE_WIDTH - PANEL_LEFT - MARGIN
    panel = add_panel(figure, PANEL_LEFT, top, width, PANEL_HEIGHT)

    def place(position: float) -> float:
        return PANEL_LEFT + width * position / data.axis.width

    draw_phases(layer, data.axis.phases, place, top, top + PANEL_HEIGHT)
    _draw_stack(panel, data, unit)
    below = top + PANEL_HEIGHT + 0.03
    if lanes:
        draw_passes(layer, data.passes, place, below)
        write(layer, PANEL_LEFT - 0.06, below + lanes / 2, "regions", ha="right", color=GREY)
    draw_modules(layer, modules, place, below + lanes)
    write(layer, PANEL_LEFT - 0.06, below + lanes + MODULES_HEIGHT * 0.75, "modules", ha="right", color=GREY)
    draw_caption(layer, text, caption_top)
    return figure


def title_lines(title: str) -> list[str]:
    return wrap(title, TITLE_WIDTH, TITLE_SIZE)


def draw_title(layer: Axes, lines: list[str]) -> float:
    """At the top of the page; where it ends, in inches from there."""
    for index, line in enumerate(lines):
        y = MARGIN + (index + 0.5) * TITLE_LINE
        layer.text(MARGIN, y, line, va="center", fontsize=TITLE_SIZE, weight="bold", color=INK)
    return MARGIN + len(lines) * TITLE_LINE


def _draw_stack(panel: Axes, data: MemoryData, unit: Unit) -> None:
    """The areas, from the highest to the lowest, each down to the ground so that its lower edge is the next one's."""
    stack, peak = data.stack, data.peak
    tops = _tops(stack)
    for category in reversed(stack.by_category):
        x, y = steps(stack.lefts, tops[category], data.axis.width)
        heights = [unit.of(stack.floor_bytes + value) for value in y]
        panel.fill_between(x, heights, color=COLOURS[category], lw=0, label=category)
    floor, high = unit.of(stack.floor_bytes), unit.of(peak.bytes)
    panel.set_xlim(0, data.axis.width)
    panel.set_ylim(floor, floor + (high - floor or 1) * HEADROOM)
    panel.patch.set_alpha(0)  # the phases' shades are behind
    panel.axvline(peak.left, color=INK, lw=0.7, ls=(0, (3, 2)), label="peak")
    mark_peak(panel, peak.left / data.axis.width, peak.left, high, amount(peak.bytes, unit))
    panel.set_xticks([])
    label_bytes(panel, unit, floor, high)


def mark_peak(panel: Axes, share: float, x: float, y: float, text: str, colour: str = INK) -> None:
    """A mark and its bytes beside it, on the side where there is more room; `share` of the axis is left of it."""
    panel.plot(
        [x], [y], "v", color=colour, markersize=4.5, mec="white", mew=0.5, clip_on=False, label="peak mark", zorder=6
    )
    side = "left" if share < 0.6 else "right"
    offset = (5, 1) if side == "left" else (-5, 1)
    panel.annotate(
        text, (x, y), offset, textcoords="offset points", ha=side, va="center", fontsize=SMALL, weight="bold",
        color=colour, path_effects=[withStroke(linewidth=2, foreground="white")], zorder=7,
    )  # fmt: skip


def label_bytes(panel: Axes, unit: Unit, low: float, high: float) -> None:
    """The vertical axis; its foot is dashed where it does not begin at 0."""
    panel.yaxis.set_major_locator(MaxNLocator(6))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.{axis_decimals(high - low)}f}")
    panel.set_ylabel(f"Allocated ({unit.name})")
    if low:
        panel.spines["bottom"].set_linestyle((0, (2, 2)))


def steps(lefts: tuple[float, ...], values: list[int], width: float) -> tuple[list[float], list[float]]:
    """The corners of a stepped line, those left out between which nothing changes."""
    x: list[float] = []
    y: list[float] = []
    for index, (left, value) in enumerate(zip(lefts, values, strict=True)):
        if index and value == values[index - 1]:
            continue
        if index:
            x.append(left)
            y.append(values[index - 1])
        x.append(left)
        y.append(value)
    return [*x, width], [*y, y[-1]]


def _tops(stack: Stack) -> dict[str, list[int]]:
    """The upper edge of each category."""
    edge = [0] * len(stack.lefts)
    tops = {}
    for category, series in stack.by_category.items():
        edge = [below + value for below, value in zip(edge, series, strict=True)]
        tops[category] = edge
    return tops


def _peak_text(data: MemoryData, unit: Unit) -> str:
    return f"{peak_of(data, unit)}: {moment(data.peak, data.num_micro_batches)}. Held then:"


def _legend_rows(data: MemoryData, unit: Unit) -> list[list[tuple[str, str, float]]]:
    """(category or nothing, text, left) of the categories, highest first, with what they hold at the peak.

    Categories that are never large enough to be seen are named together.
    """
    least = LEAST_SHARE * data.peak.bytes
    at_peak = data.peak.by_category
    largest = {
        category: max(at_peak.get(category, 0), *data.stack.by_category.get(category, (0,))) for category in CATEGORIES
    }
    entries = [(category, _held(category, data, unit)) for category in CATEGORIES[::-1] if largest[category] >= least]
    small = [category for category in CATEGORIES[::-1] if largest[category] < least and category in at_peak]
    if small:
        entries.append(("", f"{', '.join(small)} {small_amount(sum(at_peak[c] for c in small), unit)}"))
    rows: list[list[tuple[str, str, float]]] = []
    left = PAGE_WIDTH
    for category, text in entries:
        width = (SWATCH + 0.05 if category else 0) + text_width(text)
        if left + width > PAGE_WIDTH - MARGIN:
            rows.append([])
            left = MARGIN
        rows[-1].append((category, text, left))
        left += width + 0.18
    return rows


def _held(category: str, data: MemoryData, unit: Unit) -> str:
    size = data.peak.by_category.get(category, 0)
    if not size:
        return f"{category} none"
    return f"{category} {small_amount(size, unit)} ({share_text(size, data.peak.bytes)})"


def _draw_legend(layer: Axes, rows: list[list[tuple[str, str, float]]], top: float) -> None:
    for index, row in enumerate(rows):
        y = top + (index + 0.5) * LINE * 1.1
        for category, text, left in row:
            shift = 0.0
            if category:
                shape = Rectangle((left, y - 0.05), SWATCH, 0.1, fc=COLOURS[category], ec=GREY, lw=0.3, label="legend")
                layer.add_patch(shape)
                shift = SWATCH + 0.05
            write(layer, left + shift, y, text)


def axis_decimals(reach: float) -> int:
    return 0 if reach >= 20 else 1 if reach >= 2 else 2
