"""The blocks of text under the frontier plot: what each number stands for, what was not scored, and the caption."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes

from bench.report.families import mark_scale
from bench.report.frontier_data import Failure, FrontierData, KeyEntry
from bench.report.labels import fold
from bench.report.page import (
    FAILURE_COLOUR,
    GREY,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    mono_characters,
    mono_width,
    wrap,
    write,
)

ONE_COLUMN_ENTRIES = 12
COLUMN_GAP = 0.2
NUMBER_WIDTH = 0.2
MARKER_WIDTH = 0.17
TEXT_LEFT = NUMBER_WIDTH + MARKER_WIDTH
REASON_ENTRIES = 6
"""Up to this many failures each show a reason; the table has the reasons of all."""

LABEL_HEADER = "placement"
RATIO_HEADER, PEAK_HEADER = "time ratio", "peak"

Markers = Mapping[str, tuple[str, str]]
"""Family → colour and marker."""


@dataclass(frozen=True)
class Line:
    """One line of a block; the first line of an entry has its tag, marker and values."""

    label: str
    entry: KeyEntry | Failure | None = None
    values: str = ""


def key_columns(data: FrontierData) -> list[list[Line]]:
    """The key's lines in one column, or in two where there are many."""
    if not data.key:
        return []
    values = _aligned_values(data)
    values_width = max(map(len, values)) + 2
    longest = max(len(entry.label) for entry in data.key)
    fits_twice = longest <= _label_characters(2, values_width)
    num_columns = 2 if len(data.key) > ONE_COLUMN_ENTRIES and fits_twice else 1
    width = _label_characters(num_columns, values_width)
    entries = [_entry_lines(entry, entry.label, text, width) for entry, text in zip(data.key, values, strict=True)]
    return _balanced(entries, num_columns)


def failure_columns(data: FrontierData) -> list[list[Line]]:
    """One line or more for each placement that is not scored, reasons included where they are few."""
    if not data.failures:
        return []
    if len(data.failures) <= REASON_ENTRIES:
        width = _label_characters(1, 0)
        texts = [f"{failure.label}  {_reason(failure)}" for failure in data.failures]
        entries = [_failure_lines(f, text, width) for f, text in zip(data.failures, texts, strict=True)]
        return _balanced(entries, 1)
    texts = [f"{failure.label}  {failure.outcome}" for failure in data.failures]
    num_columns = 2 if max(map(len, texts)) <= _label_characters(2, 0) else 1
    width = _label_characters(num_columns, 0)
    entries = [_failure_lines(f, text, width) for f, text in zip(data.failures, texts, strict=True)]
    return _balanced(entries, num_columns)


def block_height(columns: list[list[Line]]) -> float:
    return max((len(lines) for lines in columns), default=0) * LINE


def draw_key(layer: Axes, data: FrontierData, columns: list[list[Line]], top: float, markers: Markers) -> None:
    """The key, below a line that names its columns; block_height plus one LINE high."""
    if not columns:
        return
    ratio, peak, share = _value_widths(data)
    header = f"{RATIO_HEADER:<{ratio}}  {PEAK_HEADER:>{peak}}  {data.share_header:>{share}}"
    for left, width, lines in _placed(columns):
        label_width = max(*(len(line.label) for line in lines), len(LABEL_HEADER))
        value_left = min(left + TEXT_LEFT + mono_width(label_width + 2), left + width)
        write(layer, left + TEXT_LEFT, top + 0.5 * LINE, LABEL_HEADER, color=GREY)
        write(layer, value_left, top + 0.5 * LINE, header, family="monospace", color=GREY)
        for index, line in enumerate(lines):
            y = top + (index + 1.5) * LINE
            weight = "normal"
            if isinstance(line.entry, KeyEntry):
                colour, marker = markers[line.entry.family]
                weight = "bold" if line.entry.is_knee else "normal"
                write(layer, left + NUMBER_WIDTH - 0.07, y, line.entry.tag, ha="right", weight="bold")
                size = 4.5 * mark_scale(line.entry.family)
                layer.plot(left + NUMBER_WIDTH + 0.04, y, marker, color=colour, markersize=size, mec="white", mew=0.4)
                write(layer, value_left, y, line.values, family="monospace", weight=weight)
            write(layer, left + TEXT_LEFT, y, line.label, family="monospace", weight=weight)


def draw_failures(layer: Axes, columns: list[list[Line]], top: float) -> None:
    for left, _, lines in _placed(columns):
        for index, line in enumerate(lines):
            y = top + (index + 0.5) * LINE
            if isinstance(line.entry, Failure):
                write(layer, left + NUMBER_WIDTH - 0.07, y, line.entry.tag, ha="right", weight="bold")
                layer.plot(left + NUMBER_WIDTH + 0.04, y, "x", color=FAILURE_COLOUR, markersize=4.5, mew=1.2)
            write(layer, left + TEXT_LEFT, y, line.label, family="monospace")


def caption_lines(caption: str) -> list[str]:
    return wrap(caption, PAGE_WIDTH - 2 * MARGIN)


def draw_caption(layer: Axes, lines: list[str], top: float) -> None:
    for index, line in enumerate(lines):
        write(layer, MARGIN, top + (index + 0.5) * LINE, line, color=GREY)


def draw_heading(layer: Axes, text: str, top: float) -> None:
    write(layer, MARGIN, top + 0.5 * LINE, text, weight="bold")


def _aligned_values(data: FrontierData) -> list[str]:
    """Ratio, peak and share of the reference, in columns."""
    ratio, peak, share = _value_widths(data)
    return [
        f"{entry.ratio:<{ratio}}  {entry.peak:>{peak}}  {entry.share:>{share}}" + ("  knee" if entry.is_knee else "")
        for entry in data.key
    ]


def _value_widths(data: FrontierData) -> tuple[int, int, int]:
    return (
        max(len(RATIO_HEADER), *(len(entry.ratio) for entry in data.key)),
        max(len(PEAK_HEADER), *(len(entry.peak) for entry in data.key)),
        max(len(data.share_header), *(len(entry.share) for entry in data.key)),
    )


def _entry_lines(entry: KeyEntry, label: str, values: str, width: int) -> list[Line]:
    first, *rest = fold(label, width)
    return [Line(first, entry, values), *(Line(f" {text}") for text in rest)]


def _failure_lines(failure: Failure, text: str, width: int) -> list[Line]:
    """`text` begins with the label; one that fills more than a line breaks where a placement may."""
    *whole, end = fold(failure.label, width)
    first, *rest = [*whole, *textwrap.wrap(end + text.removeprefix(failure.label), width, break_on_hyphens=False)]
    return [Line(first, failure), *(Line(f" {line}") for line in rest)]


def _reason(failure: Failure) -> str:
    return f"{failure.outcome}: {failure.reason}" if failure.reason else failure.outcome


def _balanced(entries: list[list[Line]], num_columns: int) -> list[list[Line]]:
    """Fills columns one after another up to about the same height, keeping the lines of an entry together."""
    target = sum(map(len, entries)) / num_columns
    columns: list[list[Line]] = [[]]
    for lines in entries:
        if len(columns) < num_columns and len(columns[-1]) >= target:
            columns.append([])
        columns[-1] += lines
    return columns


def _column_width(num_columns: int) -> float:
    return (PAGE_WIDTH - 2 * MARGIN - (num_columns - 1) * COLUMN_GAP) / num_columns


def _label_characters(num_columns: int, value_characters: int) -> int:
    """Characters left for a label; one is kept for the indent of its further lines."""
    return mono_characters(_column_width(num_columns) - TEXT_LEFT) - value_characters - 1


def _placed(columns: list[list[Line]]) -> list[tuple[float, float, list[Line]]]:
    width = _column_width(max(len(columns), 1))
    return [(MARGIN + index * (width + COLUMN_GAP), width, lines) for index, lines in enumerate(columns)]
