"""Draws the memory of two placements' steps over each other: where one takes less, where more, and both peaks."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.key_block import caption_lines, draw_caption
from bench.report.memory_axis import aligned_axes
from bench.report.memory_data import MemoryData, memory_data
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
from bench.report.memory_timeline import (
    PANEL_LEFT,
    TITLE_LINE,
    draw_title,
    label_bytes,
    mark_peak,
    steps,
    title_lines,
)
from bench.report.memory_words import amount, moment, peak_of, small_amount
from bench.report.page import (
    GREY,
    INK,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    add_panel,
    mono_width,
    new_page,
    style,
    wrap,
    write,
)
from bench.report.quantities import Unit, memory_unit
from bench.trace.categories import CATEGORIES
from bench.trace.log import StepLog

PANEL_HEIGHT = 2.5
HEADROOM = 1.1
COLOURS = ("#0072b2", "#3b3b3b")
"""Of the step, and of what it is compared with."""
NAMES = ("this", "other")
LESS, MORE = "#9ad0b8", "#f2c38b"
LINE_SWATCH = 0.25


@dataclass(frozen=True, kw_only=True)
class Overlay:
    step: MemoryData
    other: MemoryData
    """What it is compared with."""
    modules: tuple[ModuleRun, ...]
    floor_bytes: int
    """There throughout in both steps: where the vertical axis begins."""


def memory_overlay(log: StepLog, other: StepLog, *, title: str = "") -> Figure:
    """The figure of `log` over `other`."""
    with style():
        return _draw(overlay_data(log, other), title or f"{log.model}, {log.placement} against {other.placement}")


def overlay_data(log: StepLog, other: StepLog) -> Overlay:
    axis, other_axis = aligned_axes(log, other)
    longer, longer_axis = (log, axis) if len(log.ops) >= len(other.ops) else (other, other_axis)
    return Overlay(
        step=memory_data(log, axis),
        other=memory_data(other, other_axis),
        modules=module_runs(longer, longer_axis),
        floor_bytes=min(*log.timeline(), *other.timeline()),
    )


def _draw(data: Overlay, title: str) -> Figure:
    pair = (data.step, data.other)
    unit = memory_unit([side.peak.bytes for side in pair])
    headings = title_lines(title)
    width = PAGE_WIDTH - 2 * MARGIN - LINE_SWATCH - 0.06
    keys = [wrap(f"{name}: {_key_text(side, unit)}", width) for name, side in zip(NAMES, pair, strict=True)]
    keys_top = MARGIN + len(headings) * TITLE_LINE + 0.04
    top = keys_top + sum(map(len, keys)) * LINE + 0.1 + PHASES_HEIGHT
    lanes = [num_lanes(side.passes) * LANE_HEIGHT for side in pair]
    table = _table(data, unit)
    table_top = top + PANEL_HEIGHT + 0.03 + sum(lanes) + MODULES_HEIGHT + 0.08
    text = caption_lines(_caption(data, unit))
    caption_top = table_top + len(table) * LINE + 0.06
    figure, layer = new_page(caption_top + len(text) * LINE + MARGIN)
    draw_title(layer, headings)
    _draw_keys(layer, keys, keys_top)
    width = PAGE_WIDTH - PANEL_LEFT - MARGIN
    panel = add_panel(figure, PANEL_LEFT, top, width, PANEL_HEIGHT)

    def place(position: float) -> float:
        return PANEL_LEFT + width * position / data.step.axis.width

    phases = data.step.axis.phases
    draw_phases(layer, phases, place, top, top + PANEL_HEIGHT)
    _draw_lines(panel, data, unit)
    below = top + PANEL_HEIGHT + 0.03
    for side, height, colour in zip(pair, lanes, COLOURS, strict=True):
        if height:
            draw_passes(layer, side.passes, place, below)
            write(layer, PANEL_LEFT - 0.06, below + height / 2, "regions", ha="right", color=colour)
        below += height
    draw_modules(layer, data.modules, place, below)
    write(layer, PANEL_LEFT - 0.06, below + MODULES_HEIGHT * 0.75, "modules", ha="right", color=GREY)
    for index, line in enumerate(table):
        y = table_top + (index + 0.5) * LINE
        write(layer, MARGIN, y, line, family="monospace", color=INK if index else GREY)
    draw_caption(layer, text, caption_top)
    return figure


def _draw_lines(panel: Axes, data: Overlay, unit: Unit) -> None:
    step, other = data.step, data.other
    floor = unit.of(data.floor_bytes)
    mine, theirs = ([*map(unit.of, side.stack.totals), 0.0] for side in (step, other))
    lefts = [*step.stack.lefts, step.axis.width]
    for lower, upper, colour, label in ((mine, theirs, LESS, "less"), (theirs, mine, MORE, "more")):
        is_between = [above > below for below, above in zip(lower, upper, strict=True)]
        panel.fill_between(lefts, lower, upper, where=is_between, step="post", color=colour, lw=0, label=label)
    for side, colour in zip((other, step), COLOURS[::-1], strict=True):
        x, line = steps(side.stack.lefts, list(side.stack.totals), side.axis.width)
        panel.plot(x, [unit.of(value) for value in line], color=colour, lw=0.9, label=side.placement)
    high = max(unit.of(side.peak.bytes) for side in (step, other))
    panel.set_xlim(0, step.axis.width)
    panel.set_ylim(floor, floor + (high - floor or 1) * HEADROOM)
    panel.patch.set_alpha(0)
    for side, colour in zip((other, step), COLOURS[::-1], strict=True):
        y = unit.of(side.peak.bytes)
        panel.axhline(y, color=colour, lw=0.6, ls=(0, (3, 3)), zorder=1)
        mark_peak(panel, side.peak.left / side.axis.width, side.peak.left, y, amount(side.peak.bytes, unit), colour)
    panel.set_xticks([])
    label_bytes(panel, unit, floor, high)


def _key_text(side: MemoryData, unit: Unit) -> str:
    return f"{side.placement}. {peak_of(side, unit)}: {moment(side.peak, side.num_micro_batches)}"


def _draw_keys(layer: Axes, keys: list[list[str]], top: float) -> None:
    y = top + 0.5 * LINE
    for lines, colour in zip(keys, COLOURS, strict=True):
        layer.plot([MARGIN, MARGIN + LINE_SWATCH], [y, y], color=colour, lw=1.6)
        for line in lines:
            write(layer, MARGIN + LINE_SWATCH + 0.06, y, line)
            y += LINE


def _table(data: Overlay, unit: Unit) -> list[str]:
    """What each holds at its own peak, by category, and the difference."""
    mine, theirs = data.step.peak.by_category, data.other.peak.by_category
    names = [category for category in CATEGORIES[::-1] if category in mine or category in theirs]
    rows = [("at its own peak", *NAMES, "difference")]
    for name in names:
        held, held_by_other = mine.get(name, 0), theirs.get(name, 0)
        rows.append((name, _cell(held, unit), _cell(held_by_other, unit), difference(held - held_by_other, unit)))
    step, other = data.step.peak.bytes, data.other.peak.bytes
    rows.append(("all", _cell(step, unit), _cell(other, unit), difference(step - other, unit)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    assert max(mono_width(len(line)) for line in lines) < PAGE_WIDTH - 2 * MARGIN
    return lines


def _cell(num_bytes: int, unit: Unit) -> str:
    return small_amount(num_bytes, unit) if num_bytes else "none"


def difference(num_bytes: int, unit: Unit) -> str:
    """`−1,234.5 MiB`, `< 0.1 MiB` either way, `same`."""
    if not num_bytes:
        return "same"
    size = small_amount(abs(num_bytes), unit)
    return size if size.startswith("<") else f"{'+' if num_bytes > 0 else '−'}{size}"


def _caption(data: Overlay, unit: Unit) -> str:
    fake = [name for name, side in zip(NAMES, (data.step, data.other), strict=True) if side.is_fake]
    sentences = [
        f"{data.step.model} on {data.step.device}",
        f"Forecast, on tensors without memory: {' and '.join(fake)}" if fake else "Both as recorded",
        "What both steps do lies at the same place; while one replays, the other waits",
        "Shaded green where this placement takes less, orange where it takes more",
        "Along the axis each op takes one width and each allocation or release that can be seen another: it shows "
        "order, not time",
        "A column shows its highest moment",
    ]
    if data.step.passes or data.other.passes:
        sentences.append("Regions: their first pass grey, their replay hatched")
    if data.floor_bytes:
        sentences.append(f"The axis begins at {amount(data.floor_bytes, unit)}, below which neither step falls")
    return " ".join(f"{sentence}." for sentence in sentences)
