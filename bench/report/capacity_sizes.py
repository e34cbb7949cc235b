"""How far each placement goes within the limit: a bar a placement, the size that no longer fits, and what is left."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bench.capacity.reading import ENDED_WORDS, heading, none_row, rows_with_size, rows_without_size, times_text
from bench.capacity.types import DOES_NOT_FIT, Answer
from bench.records import PLAIN
from bench.report.capacity_blocks import aligned, draw_not_shown, not_shown_block
from bench.report.capacity_caption import capacity_caption
from bench.report.capacity_data import NotShown
from bench.report.capacity_words import families, limit_unit, margin_text, next_text, shortening
from bench.report.frontier_plot import family_markers
from bench.report.key_block import caption_lines, draw_caption
from bench.report.labels import fold
from bench.report.page import (
    FAILURE_COLOUR,
    GREY,
    INK,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    mono_characters,
    mono_width,
    new_page,
    style,
    write,
)
from bench.report.reasons import brief

LABEL_WIDTH_MAX = 2.3
BAR_HEIGHT, ROW_GAP = 0.13, 0.07
TITLE_HEIGHT, HEADER_HEIGHT, EMPTY_HEIGHT = 0.26, 0.2, 0.6
BEYOND = 1.06
"""The bars' axis goes this much beyond the largest size shown, so that its mark is inside."""
VALUE_GAP = 2
"""Characters between columns of values."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    label: str
    family: str
    size: int
    next_size: int | None
    """That was run and does not fit; None where the search ended otherwise."""
    holes: tuple[int, ...]
    values: tuple[str, ...]
    """One a header."""
    is_none: bool


@dataclass(frozen=True, kw_only=True)
class SizesData:
    title: str
    headers: tuple[str, ...]
    bars: tuple[Bar, ...]
    """The furthest first."""
    none_size: int | None
    end: float
    """Size at the right end of the axis."""
    without: tuple[NotShown, ...]
    """Placements without a size."""
    caption: str


def sizes_data(answer: Answer) -> SizesData:
    """Works out everything that the figure shows."""
    way, family_of, unit, none = shortening(answer), families(answer), limit_unit(answer), none_row(answer)
    bars = tuple(
        Bar(
            label=way.label(row.placement),
            family=family_of[row.placement],
            size=row.largest or 0,
            next_size=row.next_size if row.next_outcome == DOES_NOT_FIT else None,
            holes=row.holes,
            values=(str(row.largest), times_text(row.times_none), margin_text(row, unit), next_text(row, unit)),
            is_none=row.placement == PLAIN,
        )
        for row in rows_with_size(answer)
    )
    shown = [size for bar in bars for size in (bar.size, bar.next_size or 0)]
    return SizesData(
        title=f"{answer.spec.name}: {heading(answer)}",
        headers=("largest", "times none's", f"left, {unit.name}", f"next: its peak, {unit.name}"),
        bars=bars,
        none_size=None if none is None else none.largest,
        end=BEYOND * max(shown, default=1),
        without=tuple(
            NotShown(
                label=way.label(row.placement),
                ended=ENDED_WORDS.get(row.ended, row.ended),
                reason=brief(row.reason),
            )
            for row in rows_without_size(answer)
        ),
        caption=f"{capacity_caption(answer)} Bars end at the largest size that was run and fits; ×: was run and does "
        "not fit; dashed: none.",
    )


def draw_sizes(data: SizesData) -> Figure:
    """The figure; where no placement has a size it says so."""
    with style():
        return _draw(data)


def _draw(data: SizesData) -> Figure:
    labels = [fold(bar.label, mono_characters(LABEL_WIDTH_MAX)) for bar in data.bars]
    heights = [max(BAR_HEIGHT, len(lines) * LINE) + ROW_GAP for lines in labels]
    others, caption = not_shown_block(data.without), caption_lines(data.caption)
    rows_top = MARGIN + TITLE_HEIGHT + HEADER_HEIGHT
    others_top = rows_top + (sum(heights) if heights else EMPTY_HEIGHT) + 0.08
    caption_top = others_top + (others.height + 0.1 if others.height else 0.0)
    figure, layer = new_page(caption_top + len(caption) * LINE + MARGIN)
    layer.text(MARGIN, MARGIN + 0.1, data.title, va="center", fontsize=8.5, fontweight="bold", color=INK)
    if data.bars:
        _draw_rows(layer, data, labels, heights, rows_top)
    else:
        message = "No placement was found to fit at any size."
        layer.text(PAGE_WIDTH / 2, rows_top + EMPTY_HEIGHT / 2, message, ha="center", va="center", fontsize=10)
    draw_not_shown(layer, others, "No size", others_top)
    draw_caption(layer, caption, caption_top)
    return figure


def _draw_rows(layer: Axes, data: SizesData, labels: list[list[str]], heights: list[float], top: float) -> None:
    widths = [max(map(len, column)) for column in zip(data.headers, *(bar.values for bar in data.bars), strict=True)]
    value_left = PAGE_WIDTH - MARGIN - mono_width(sum(widths) + VALUE_GAP * (len(widths) - 1))
    left = MARGIN + mono_width(max(len(line) for lines in labels for line in lines)) + 0.1
    inches_a_size = (value_left - 0.12 - left) / data.end
    headers = aligned(data.headers, widths, VALUE_GAP)
    write(layer, value_left, top - 0.5 * HEADER_HEIGHT, headers, family="monospace", color=GREY)
    if data.none_size is not None:
        x = left + data.none_size * inches_a_size
        bottom = top + sum(heights) - ROW_GAP / 2
        layer.plot([x, x], [top - 0.04, bottom], color=GREY, lw=0.8, ls=(0, (4, 2)), zorder=1)
    y = top
    for bar, lines, height in zip(data.bars, labels, heights, strict=True):
        middle = y + (height - ROW_GAP) / 2
        _draw_bar(layer, bar, left, middle, inches_a_size)
        for index, line in enumerate(lines):
            at = middle + (index - (len(lines) - 1) / 2) * LINE
            write(layer, MARGIN, at, line, family="monospace", weight="bold" if bar.is_none else "normal")
        write(layer, value_left, middle, aligned(bar.values, widths, VALUE_GAP), family="monospace")
        y += height


def _draw_bar(layer: Axes, bar: Bar, left: float, middle: float, inches_a_size: float) -> None:
    colour, _ = family_markers()[bar.family]
    layer.add_patch(
        Rectangle((left, middle - BAR_HEIGHT / 2), bar.size * inches_a_size, BAR_HEIGHT, fc=colour, lw=0, zorder=2)
    )
    for size in (*bar.holes, *([bar.next_size] if bar.next_size is not None else [])):
        x = left + size * inches_a_size
        layer.plot(x, middle, "x", color=FAILURE_COLOUR, markersize=4.5, mew=1.2, zorder=3)
