"""A figure laid out in inches from the top left, its style, and writing it to files the same way every time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

PAGE_WIDTH = 7.2
"""Inches: the text width of a two-column paper."""
MARGIN = 0.12
SMALL = 7.0
"""Points: captions, keys, placement names."""
LINE = 0.135
"""Inches from one small line to the next."""
MONO_ADVANCE = 0.602
"""Width of a DejaVu Sans Mono character over its size."""
INK = "#222222"
GREY = "#767676"
FAILURE_COLOUR = "#a4262c"
PNG_DPI = 200
UNDATED = {"png": ("Software",), "svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
"""What a file would say of when and by which version it was written."""
BROKEN_WORD_FILL = 0.9
"""Share of a line that a piece of a broken word is meant to fill: its characters differ in width."""

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.monospace": ["DejaVu Sans Mono"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "hatch.linewidth": 0.7,
    # Outlines instead of text, so that the file looks the same without the font.
    "svg.fonttype": "path",
    "svg.hashsalt": "boundary-bench",
    # TrueType: publishers refuse matplotlib's Type 3 fonts.
    "pdf.fonttype": 42,
    "path.simplify": False,
}


def style() -> AbstractContextManager[None]:
    """The style of all plots, for the time of a `with` block; nothing global stays changed."""
    settings: Any = {**seaborn.axes_style("ticks"), **STYLE}
    return matplotlib.rc_context(settings)


def new_page(height: float) -> tuple[Figure, Axes]:
    """A figure `height` inches high, and a bare layer over it that takes positions in inches from the top left."""
    figure = Figure(figsize=(PAGE_WIDTH, height))
    layer = figure.add_axes((0, 0, 1, 1), label="page")
    layer.set_axis_off()
    layer.set_xlim(0, PAGE_WIDTH)
    layer.set_ylim(height, 0)
    return figure, layer


def add_panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes whose frame lies at this place, in inches from the top left."""
    page_width, page_height = figure.get_size_inches()
    return figure.add_axes(
        (left / page_width, 1 - (top + height) / page_height, width / page_width, height / page_height)
    )


def write(layer: Axes, x: float, y: float, text: str, **options: Any) -> None:
    """Small ink, its middle at `y`; nothing where the text is empty."""
    if text:
        layer.text(x, y, text, va="center_baseline", fontsize=SMALL, **({"color": INK} | options))


def mono_width(num_characters: int, size: float = SMALL) -> float:
    """Inches that a monospaced text takes."""
    return num_characters * MONO_ADVANCE * size / 72


def mono_characters(width: float, size: float = SMALL) -> int:
    """Characters of a monospaced text that fit into `width` inches."""
    return int(width * 72 / (MONO_ADVANCE * size))


def text_width(text: str, size: float = SMALL) -> float:
    """Inches that a proportional text takes."""
    if not text.strip():
        return 0.0
    font = FontProperties(family="DejaVu Sans", size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def wrap(text: str, width: float, size: float = SMALL) -> list[str]:
    """Lines of at most `width` inches; a single word that is longer is broken."""
    lines, line = [], ""
    for word in text.split():
        while (taken := text_width(word, size)) > width and len(word) > 1:
            keep = max(int(BROKEN_WORD_FILL * len(word) * width / taken), 1)
            lines += [line] if line else []
            lines.append(word[:keep])
            line, word = "", word[keep:]
        joined = f"{line} {word}" if line else word
        if text_width(joined, size) <= width:
            line = joined
        else:
            lines.append(line)
            line = word
    return [*lines, line] if line else lines


def save(figure: Figure, directory: Path, name: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Writes NAME.png and so on, of `png`, `svg` and `pdf` what is in `formats`; equal figures give equal bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.{format_}" for format_ in formats]
    with style():
        for path, format_ in zip(paths, formats, strict=True):
            figure.savefig(path, dpi=PNG_DPI, metadata=dict.fromkeys(UNDATED[format_]))
    return paths
