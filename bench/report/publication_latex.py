"""What a LaTeX paper takes over as it is: escaped text, and floats for figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "×": r"\ensuremath{\times}",
    "±": r"\ensuremath{\pm}",
    "−": r"\ensuremath{-}",
    "≥": r"\ensuremath{\geq}",
    "≤": r"\ensuremath{\leq}",
    "→": r"\ensuremath{\rightarrow}",
    "∗": r"\ensuremath{\ast}",
    "√": r"\ensuremath{\surd}",
    "–": "--",
    "…": r"\ldots{}",
    "µ": r"\textmu{}",
    "“": "``",
    "”": "''",
}
FLOATS = {1: ("figure", "table"), 2: ("figure*", "table*")}
"""Columns → environments of a two-column paper."""


@dataclass(frozen=True, kw_only=True)
class FigureFile:
    name: str
    """Without an ending, so that LaTeX takes the PDF."""
    columns: int
    caption: str


def latex(text: str) -> str:
    """`text` as LaTeX sets it, on one line. What pdflatex has no letter for becomes its code: `[U+2603]`."""
    return "".join(map(_letter, " ".join(text.split())))


def latex_code(text: str) -> str:
    """A placement in typewriter letters that may be broken at its joints, and nowhere is changed."""
    parts = re.split(r"(?<=[+/])|(?=[:@])", " ".join(text.split()))
    joints = r"\allowbreak{}".join("".join(map(_letter, part)) for part in parts)
    return rf"\texttt{{{joints}}}"


def latex_figures(figures: Sequence[FigureFile]) -> str:
    """A float for each file, with its caption; the width is the file's own, so that letters keep their size."""
    return "% Needs \\usepackage{graphicx} and \\usepackage[T1]{fontenc}.\n" + "".join(map(_figure, figures))


def _figure(figure: FigureFile) -> str:
    environment, _ = FLOATS[figure.columns]
    return (
        f"\n\\begin{{{environment}}}\n\\centering\n\\includegraphics{{{figure.name}.pdf}}\n"
        f"\\caption{{{latex(figure.caption)}}}\n\\label{{fig:{figure.name}}}\n\\end{{{environment}}}\n"
    )


def _letter(character: str) -> str:
    if character in LATEX:
        return LATEX[character]
    # T1 has Latin letters with accents; utf8 input is LaTeX's default.
    return character if character.isascii() or "À" <= character <= "ž" else f"[U+{ord(character):04X}]"
