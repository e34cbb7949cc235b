"""Draws `strip_data`: a strip for each frontier placement, a cell for each unit, shaded by how it is replayed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bench.report.key_block import caption_lines, draw_caption
from bench.report.labels import fold
from bench.report.page import (
    GREY,
    INK,
    LINE,
    MARGIN,
    PAGE_WIDTH,
    mono_characters,
    mono_width,
    new_page,
    style,
    text_width,
    write,
)
from bench.report.strip_data import ALONE, PART, PLAIN, SPAN, Cell, Row, Span, StripData

LABEL_WIDTH_MAX = 2.2
TAG_WIDTH = 0.2
STRIP_HEIGHT = 0.19
ROW_GAP = 0.07
RUN_GAP = 0.1
HEADER_HEIGHT = 0.34
TICKS_HEIGHT = 0.18
LEGEND_HEIGHT = 0.24
EMPTY_HEIGHT = 0.9
MIN_TICK_WIDTH = 0.15
ELSEWHERE_SHOWN = 12
"""Characters of modules outside the strip's columns."""
"""Inches between two column numbers."""
PART_SHARE = 0.45
"""Height of the shade of a submodule, as a share of its cell."""
HATCH = "//////"
SWATCH = 0.2
CELL_GAP = 0.012
LEVEL_INSET = 0.035
"""Inches by which a boundary stays inside the one around it."""
KEEPS, NESTED = "outputs of ops kept", "a region in a span"


def draw_strip(data: StripData, caption: str) -> Figure:
    """The figure of which units are replayed; where there is no frontier it says so."""
    with style():
        return _draw_empty(data, caption) if data.headline else _draw(data, caption)


def _draw_empty(data: StripData, caption: str) -> Figure:
    lines = caption_lines(caption)
    figure, layer = new_page(EMPTY_HEIGHT + len(lines) * LINE + MARGIN)
    layer.text(PAGE_WIDTH / 2, EMPTY_HEIGHT / 2, data.headline, ha="center", va="center", fontsize=10)
    draw_caption(layer, lines, EMPTY_HEIGHT)
    return figure


def _draw(data: StripData, caption: str) -> Figure:
    labels = [fold(row.label, mono_characters(LABEL_WIDTH_MAX)) for row in data.rows]
    heights = [max(STRIP_HEIGHT, len(lines) * LINE) + ROW_GAP for lines in labels]
    label_width = max(mono_width(len(line)) for lines in labels for line in lines)
    left = MARGIN + TAG_WIDTH + label_width + 0.1
    values = [_values(row, data.rows) for row in data.rows]
    right = PAGE_WIDTH - MARGIN - mono_width(max(map(len, values))) - 0.1
    edges = _column_edges(data, left, right)
    text, legend = caption_lines(caption), _legend_rows(data)
    rows_top = MARGIN + len(legend) * LEGEND_HEIGHT + HEADER_HEIGHT
    ticks_top = rows_top + sum(heights)
    figure, layer = new_page(ticks_top + TICKS_HEIGHT + 0.06 + len(text) * LINE + MARGIN)
    _draw_legend(layer, legend, MARGIN)
    _draw_header(layer, data, edges, rows_top)
    for row, lines, value, height, top in zip(
        data.rows, labels, values, heights, itertools.accumulate(heights, initial=rows_top), strict=False
    ):
        _draw_row(layer, row, lines, value, top + (height - ROW_GAP) / 2, edges, right)
    _draw_ticks(layer, data, edges, ticks_top)
    draw_caption(layer, text, ticks_top + TICKS_HEIGHT + 0.06)
    return figure


def _column_edges(data: StripData, left: float, right: float) -> list[tuple[float, float]]:
    """Left and right of each column; runs of units stand apart."""
    num_columns = sum(len(run.indices) for run in data.runs)
    width = (right - left - RUN_GAP * (len(data.runs) - 1)) / num_columns
    edges = []
    x = left
    for run in data.runs:
        for _ in run.indices:
            edges.append((x, x + width))
            x += width
        x += RUN_GAP
    return edges


def _draw_row(
    layer: Axes,
    row: Row,
    lines: list[str],
    value: str,
    middle: float,
    edges: list[tuple[float, float]],
    right: float,
) -> None:
    write(layer, MARGIN + TAG_WIDTH - 0.07, middle, row.tag, ha="right", weight="bold")
    for index, line in enumerate(lines):
        y = middle + (index - (len(lines) - 1) / 2) * LINE
        write(layer, MARGIN + TAG_WIDTH, y, line, family="monospace")
    write(layer, right + 0.1, middle, value, family="monospace")
    top = middle - STRIP_HEIGHT / 2
    for span in row.spans:
        _draw_span(layer, span, edges, top)
    for cell, (x0, x1) in zip(row.cells, edges, strict=True):
        _draw_cell(layer, cell, x0, x1, top)


def _draw_span(layer: Axes, span: Span, edges: list[tuple[float, float]], top: float) -> None:
    """Its boundary; thin lines tell its units apart, a region of one unit inside it has the colour of such regions."""
    colours = _colours()
    inset = LEVEL_INSET * span.level
    x0, x1 = edges[span.first][0] + CELL_GAP + inset, edges[span.last][1] - CELL_GAP - inset
    fill = colours[SPAN] if span.last > span.first or not span.level else colours[ALONE]
    height = STRIP_HEIGHT - 2 * inset
    layer.add_patch(
        Rectangle((x0, top + inset), x1 - x0, height, fc=fill, ec=INK, lw=0.6 if span.level else 1.0, label="span")
    )
    if not span.level:
        for column in range(span.first, span.last):
            x = (edges[column][1] + edges[column + 1][0]) / 2
            layer.plot([x, x], [top + 0.02, top + STRIP_HEIGHT - 0.02], color="white", lw=0.5)


def _draw_cell(layer: Axes, cell: Cell, x0: float, x1: float, top: float) -> None:
    """Shade, hatch and submodules of a unit; the shade of a span is drawn with its boundary."""
    colours = _colours()
    gap = min(CELL_GAP, 0.12 * (x1 - x0))
    left, width = x0 + gap, x1 - x0 - 2 * gap
    if cell.kind == ALONE:
        layer.add_patch(Rectangle((left, top), width, STRIP_HEIGHT, fc=colours[ALONE], lw=0, label=ALONE))
    elif cell.kind != SPAN:
        layer.add_patch(
            Rectangle((left, top), width, STRIP_HEIGHT, fc=colours[PLAIN], ec="#c9c9c9", lw=0.4, label=cell.kind)
        )
    height = PART_SHARE * STRIP_HEIGHT
    if cell.parts:
        layer.add_patch(Rectangle((left, top + STRIP_HEIGHT - height), width, height, fc=colours[PART], lw=0))
    if cell.keeps:
        hatched = height if cell.kind == PART else STRIP_HEIGHT
        layer.add_patch(
            Rectangle(
                (left, top + STRIP_HEIGHT - hatched), width, hatched, fill=False, hatch=HATCH, ec="white", lw=0,
                label="keeps",
            )
        )  # fmt: skip


def _draw_header(layer: Axes, data: StripData, edges: list[tuple[float, float]], bottom: float) -> None:
    """Above each chain its name, above each run of units what their names begin with. Where one name is too wide for
    its columns, all are cut to what tells them apart."""
    chains = {chain: list(group) for chain, group in itertools.groupby(data.runs, key=lambda run: run.chain)}
    ends = {
        chain: (edges[runs[0].first][0], edges[runs[-1].first + len(runs[-1].indices) - 1][1])
        for chain, runs in chains.items()
    }
    fit = all(text_width(chain) <= x1 - x0 + RUN_GAP for chain, (x0, x1) in ends.items())
    names = list(chains) if fit or len(chains) == 1 else _told_apart(list(chains))
    for (chain, runs), name in zip(chains.items(), names, strict=True):
        x0, x1 = ends[chain]
        write(layer, (x0 + x1) / 2, bottom - 0.24, name, ha="center", weight="bold")
        layer.plot([x0, x1], [bottom - 0.15] * 2, color=INK, lw=0.7)
        for run in runs:
            r0, r1 = edges[run.first][0], edges[run.first + len(run.indices) - 1][1]
            if run.prefix not in ("", chain) and text_width(run.prefix) <= r1 - r0 + RUN_GAP:
                write(layer, (r0 + r1) / 2, bottom - 0.08, run.prefix, ha="center", color=GREY)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Dotted names without the parts that all begin and end with; never empty."""
    parts = [name.split(".") for name in names]
    shortest = min(map(len, parts)) - 1
    begin = next((i for i in range(shortest) if len({p[i] for p in parts}) > 1), shortest)
    end = next((i for i in range(shortest - begin) if len({p[-1 - i] for p in parts}) > 1), shortest - begin)
    return [".".join(p[begin : len(p) - end]) for p in parts]


def _draw_ticks(layer: Axes, data: StripData, edges: list[tuple[float, float]], top: float) -> None:
    """The units' numbers, thinned to 1, 2, 5, 10 … where columns are narrow."""
    width = edges[0][1] - edges[0][0]
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**6) if step * width >= MIN_TICK_WIDTH)
    for run in data.runs:
        for offset, index in enumerate(run.indices):
            if offset % step == 0:
                x0, x1 = edges[run.first + offset]
                write(layer, (x0 + x1) / 2, top + 0.04, index, ha="center", color=GREY)


def _legend_rows(data: StripData) -> list[list[tuple[str, float]]]:
    """Names of what occurs, with their place from the left, broken into rows."""
    cells = [cell for row in data.rows for cell in row.cells]
    names = [kind for kind in (PLAIN, ALONE, SPAN, PART) if any(cell.kind == kind for cell in cells)]
    names += [KEEPS] if any(cell.keeps for cell in cells) else []
    names += [NESTED] if any(span.level for row in data.rows for span in row.spans) else []
    rows: list[list[tuple[str, float]]] = []
    left = PAGE_WIDTH
    for name in names:
        width = SWATCH + 0.06 + text_width(name)
        if left + width > PAGE_WIDTH - MARGIN:
            rows.append([])
            left = MARGIN
        rows[-1].append((name, left))
        left += width + 0.16
    return rows


def _draw_legend(layer: Axes, rows: list[list[tuple[str, float]]], top: float) -> None:
    examples = {
        PLAIN: Cell(kind=PLAIN),
        ALONE: Cell(kind=ALONE),
        SPAN: Cell(kind=SPAN),
        PART: Cell(kind=PART, parts=("part",)),
        KEEPS: Cell(kind=ALONE, keeps=True),
        NESTED: Cell(kind=SPAN),
    }
    for index, row in enumerate(rows):
        y = top + index * LEGEND_HEIGHT
        for name, left in row:
            edges = [(left, left + SWATCH)]
            if name in (SPAN, NESTED):
                _draw_span(layer, Span(first=0, last=0, level=0), edges, y)
            if name == NESTED:
                _draw_span(layer, Span(first=0, last=0, level=1), edges, y)
            _draw_cell(layer, examples[name], left, left + SWATCH, y)
            write(layer, left + SWATCH + 0.06, y + STRIP_HEIGHT / 2, name)


def _colours() -> dict[str, str]:
    palette = seaborn.color_palette("colorblind").as_hex()
    return {PLAIN: "#f4f4f4", ALONE: palette[0], SPAN: palette[1], PART: palette[2]}


def _few(names: Sequence[str]) -> str:
    """As many names as leave the strip its room, and how many more there are."""
    shown: list[str] = []
    while len(shown) < len(names) and len(", ".join((*shown, names[len(shown)]))) <= ELSEWHERE_SHOWN:
        shown.append(names[len(shown)])
    more = len(names) - len(shown)
    if not shown:
        return f"{more} elsewhere"
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _values(row: Row, rows: tuple[Row, ...]) -> str:
    peak, ratio = max(len(other.peak) for other in rows), max(len(other.ratio) for other in rows)
    note = f"  also {_few(row.elsewhere)}" if row.elsewhere else ""
    return f"{row.peak:>{peak}}  {row.ratio:<{ratio}}{note}"
