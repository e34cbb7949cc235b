"""Sheets for print: as wide as a column or a page of a two-column paper, with text that stays text in the files."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.report.page import UNDATED, new_page, style

WIDTHS = {1: 3.5, 2: 7.16}
"""Columns → inches: IEEE's two-column papers, which ACM's are a few points narrower than."""
FORMATS = ("png", "svg", "pdf")
PRINT_DPI = 300
ALIGNING, NO_BREAK = re.compile(r"^ +| {2,}"), "\u00a0"
EDGE = 0.04
"""Inches of free space around a figure: a paper has its own."""


def new_sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches, and a bare layer over it that takes positions in inches from the top left."""
    figure, layer = new_page(height)
    figure.set_figwidth(width)
    layer.set_xlim(0, width)
    return figure, layer


def save_for_print(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes NAME.png, NAME.svg and NAME.pdf; equal figures give equal bytes.

    Text is text in both: PDF has TrueType letters embedded, SVG names the font and leaves it to the reader's machine,
    so that an editor can change a word and a search can find it.
    """
    _keep_blanks(figure)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{format_}" for format_ in FORMATS]
    with style(), matplotlib.rc_context({"svg.fonttype": "none"}):
        for path, format_ in zip(paths, FORMATS, strict=True):
            figure.savefig(path, dpi=PRINT_DPI, metadata=dict.fromkeys(UNDATED[format_]))
    return paths


def _keep_blanks(figure: Figure) -> None:
    """Blanks that align columns are made unbreakable: readers of SVG join neighbouring ones and drop the first."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(ALIGNING.sub(lambda blanks: NO_BREAK * len(blanks[0]), text.get_text()))
