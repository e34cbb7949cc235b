"""The blocks of text under a capacity's figures: what each number stands for, and what has no mark."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from bench.report.capacity_data import CapacityData, KeyRow, NotShown
from bench.report.families import mark_scale
from bench.report.frontier_plot import family_markers
from bench.report.labels import fold
from bench.report.page import (
    FAILURE_COLOUR,
    GREY,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    mono_characters,
    mono_width,
    write,
)

TAG_WIDTH, MARKER_WIDTH = 0.32, 0.17
TEXT_LEFT = MARGIN + TAG_WIDTH + MARKER_WIDTH
COLUMN_GAP = 2
"""Characters between two columns of the key."""
REASONS_SHOWN = 8
"""Up to this many placements without a mark have their reason in the figure; the table has the reasons of all."""
FILL = "#f7f0f0"


@dataclass(frozen=True, kw_only=True)
class Line:
    label: str
    row: KeyRow | NotShown | None = None
    """On its first line."""


@dataclass(frozen=True, kw_only=True)
class Block:
    lines: tuple[Line, ...]
    height: float
    """Inches, with its heading; 0 where it is empty."""


def key_block(data: CapacityData) -> Block:
    width = mono_characters(PAGE_WIDTH - MARGIN - TEXT_LEFT) - sum(_widths(data)) - COLUMN_GAP * len(data.headers)
    lines: list[Line] = []
    for row in data.key:
        first, *rest = fold(row.label, width)
        lines += [Line(label=first, row=row), *(Line(label=f" {text}") for text in rest)]
    return Block(lines=tuple(lines), height=(len(lines) + 1) * LINE if lines else 0.0)


def draw_key(layer: Axes, data: CapacityData, block: Block, top: float) -> None:
    """The key below a line that names its columns."""
    if not block.lines:
        return
    widths, markers = _widths(data), family_markers()
    left = TEXT_LEFT + mono_width(max(len("placement"), *(len(line.label) for line in block.lines)) + COLUMN_GAP)
    write(layer, TEXT_LEFT, top + 0.5 * LINE, "placement", color=GREY)
    write(layer, left, top + 0.5 * LINE, aligned(data.headers, widths), family="monospace", color=GREY)
    weight = "normal"
    for index, line in enumerate(block.lines):
        y = top + (index + 1.5) * LINE
        if isinstance(line.row, KeyRow):
            colour, marker = markers[line.row.family]
            write(layer, MARGIN + TAG_WIDTH - 0.05, y, line.row.tag, ha="right", weight="bold")
            size = 4.5 * mark_scale(line.row.family)
            layer.plot(MARGIN + TAG_WIDTH + 0.06, y, marker, color=colour, markersize=size, mec="white", mew=0.4)
            weight = "bold" if line.row.on_frontier else "normal"  # that of the label's further lines as well
            write(layer, left, y, aligned(line.row.cells, widths), family="monospace", weight=weight)
        write(layer, TEXT_LEFT, y, line.label, family="monospace", weight=weight)


def not_shown_block(rows: Sequence[NotShown]) -> Block:
    width = mono_characters(PAGE_WIDTH - MARGIN - TEXT_LEFT)
    lines: list[Line] = []
    for row in rows:
        reason = f": {row.reason}" if row.reason and len(rows) <= REASONS_SHOWN else ""
        *whole, end = fold(row.label, width)
        first, *rest = [*whole, *textwrap.wrap(f"{end}  {row.ended}{reason}", width, break_on_hyphens=False)]
        lines += [Line(label=first, row=row), *(Line(label=f" {text}") for text in rest)]
    return Block(lines=tuple(lines), height=(len(lines) + 1) * LINE + 0.1 if lines else 0.0)


def draw_not_shown(layer: Axes, block: Block, heading: str, top: float) -> None:
    if not block.lines:
        return
    layer.axhspan(top, top + block.height, 0.01, 0.99, color=FILL, lw=0)
    write(layer, MARGIN, top + 0.04 + 0.5 * LINE, heading, weight="bold")
    for index, line in enumerate(block.lines):
        y = top + 0.06 + (index + 1.5) * LINE
        if line.row is not None:
            layer.plot(MARGIN + TAG_WIDTH + 0.06, y, "x", color=FAILURE_COLOUR, markersize=4.5, mew=1.2)
        write(layer, TEXT_LEFT, y, line.label, family="monospace")


def _widths(data: CapacityData) -> list[int]:
    return [
        max(len(cell) for cell in column) for column in zip(data.headers, *(row.cells for row in data.key), strict=True)
    ]


def aligned(cells: Sequence[str], widths: Sequence[int], gap: int = COLUMN_GAP) -> str:
    """Cells of a line in columns of `widths` characters, flush right."""
    return (" " * gap).join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
