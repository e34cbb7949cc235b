"""The key of a figure for print: a line for each placement that has a number, under the panel or beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from bench.report.families import mark_scale
from bench.report.frontier_data import KeyEntry
from bench.report.frontier_plot import Markers
from bench.report.labels import fold
from bench.report.page import GREY, INK, mono_characters, mono_width, text_width
from bench.report.publication_data import PublicationData

KEY_SIZE = 6.5
"""Points: what can still be read in print at the figure's own width."""
KEY_LINE = 0.125
NUMBER_RIGHT, MARK_MIDDLE, TEXT_LEFT = 0.2, 0.28, 0.36
"""Inches from the key's left end; numbers have up to three digits."""
LINES_SHOWN = 3
"""Of a name that is longer the rest is left to the table, which the number leads to."""
RATIO_HEADER = "time ratio"


@dataclass(frozen=True, kw_only=True)
class KeyText:
    """One line; the first of an entry has its number, mark and values."""

    label: str
    entry: KeyEntry | None = None
    values: str = ""
    colour: str = INK


def key_texts(data: PublicationData, width: float) -> list[KeyText]:
    """A header, the named placements, and how many others the frontier has; empty without a frontier.

    Args:
        width: inches of the whole key.
    """
    if not data.key:
        return []
    ratio = max(len(RATIO_HEADER), *(len(entry.ratio) for entry in data.key))
    share = max(len(data.share_header), *(len(entry.share) for entry in data.key))
    characters = mono_characters(width - TEXT_LEFT, KEY_SIZE) - ratio - share - 4
    lines = [KeyText(label="placement", values=f"{RATIO_HEADER:<{ratio}}  {data.share_header:>{share}}", colour=GREY)]
    for entry in data.key:
        first, *rest = _folded(entry.label, characters)
        lines.append(KeyText(label=first, entry=entry, values=f"{entry.ratio:<{ratio}}  {entry.share:>{share}}"))
        lines += [KeyText(label=f" {text}") for text in rest]
    others = data.num_frontier - len(data.key)
    if others:
        lines.append(KeyText(label=f"and {others} more, between these", colour=GREY))
    return lines


def key_height(texts: list[KeyText]) -> float:
    return len(texts) * KEY_LINE


def taken_width(texts: list[KeyText], width: float) -> float:
    """Inches that the lines take, at most `width`."""
    valued = _values_left(texts) + mono_width(max((len(text.values) for text in texts), default=0), KEY_SIZE)
    others = [TEXT_LEFT + text_width(text.label, KEY_SIZE) for text in texts if not text.values]
    return min(max([valued, *others]), width)


def draw_key_texts(layer: Axes, texts: list[KeyText], left: float, top: float, width: float, markers: Markers) -> None:
    """Values end at the key's right end or, where names are short, two letters after the longest."""
    valued = [text for text in texts if text.values]
    if not valued:
        return
    values_left = left + min(_values_left(texts), width - mono_width(len(valued[0].values), KEY_SIZE))
    for index, text in enumerate(texts):
        y = top + (index + 0.5) * KEY_LINE
        weight = "bold" if text.entry is not None and text.entry.is_knee else "normal"
        if text.entry is not None:
            colour, marker = markers[text.entry.family]
            size = 4.2 * mark_scale(text.entry.family)
            _write(layer, left + NUMBER_RIGHT, y, text.entry.tag, ha="right", fontweight="bold")
            layer.plot(left + MARK_MIDDLE, y, marker, color=colour, markersize=size, mec="white", mew=0.4)
        family = "monospace" if text.entry is not None or text.label.startswith(" ") else "sans-serif"
        _write(layer, left + TEXT_LEFT, y, text.label, family=family, color=text.colour, fontweight=weight)
        _write(layer, values_left, y, text.values, family="monospace", color=text.colour, fontweight=weight)


def _values_left(texts: list[KeyText]) -> float:
    """Inches from the key's left end, two letters behind the longest name."""
    longest = max((len(text.label) for text in texts if text.values or text.label.startswith(" ")), default=0)
    return TEXT_LEFT + mono_width(longest + 2, KEY_SIZE)


def _write(layer: Axes, x: float, y: float, text: str, **options: Any) -> None:
    if text:
        layer.text(x, y, text, va="center_baseline", fontsize=KEY_SIZE, **({"color": INK} | options))


def _folded(label: str, characters: int) -> list[str]:
    lines = fold(label, characters - 1)
    if len(lines) <= LINES_SHOWN:
        return lines
    return [*lines[: LINES_SHOWN - 1], f"{lines[LINES_SHOWN - 1][: characters - 2]}…"]
