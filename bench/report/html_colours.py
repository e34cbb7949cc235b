"""Colours and shapes of the HTML report: those of the plots, and for dark screens lighter ones of the same hue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.report.families import mark_scale

DARK_BACKGROUND = "#15181c"
DARK_CONTRAST_MIN = 4.5
"""Between a mark and a dark background; WCAG asks for 3 of graphics and 4.5 of text, and some marks have letters."""
STEPS = 40


@dataclass(frozen=True, kw_only=True)
class FamilyLook:
    name: str
    shape: str
    """matplotlib's letter of it: `o`, `s`, `D` …"""
    scale: float
    """Width of its mark over that of others."""
    colour: str
    on_dark: str


def family_looks(markers: Mapping[str, tuple[str, str]]) -> tuple[FamilyLook, ...]:
    """`markers`: family → colour and shape, as `bench.report.frontier_plot.family_markers` gives them."""
    return tuple(
        FamilyLook(name=name, shape=shape, scale=mark_scale(name), colour=colour, on_dark=on_dark(colour))
        for name, (colour, shape) in markers.items()
    )


def style_of(looks: tuple[FamilyLook, ...], failure: str) -> str:
    """CSS that gives `.family-0`, `.family-1` … and `.failure` their `--mark`."""
    names = [f".family-{number}" for number in range(len(looks))]
    light = [f"{name} {{ --mark: {look.colour}; }}" for name, look in zip(names, looks, strict=True)]
    dark = [f"  {name} {{ --mark: {look.on_dark}; }}" for name, look in zip(names, looks, strict=True)]
    light.append(f".failure {{ --mark: {failure}; }}")
    dark.append(f"  .failure {{ --mark: {on_dark(failure)}; }}")
    return "\n".join([*light, "@media screen and (prefers-color-scheme: dark) {", *dark, "}", ""])


def on_dark(colour: str) -> str:
    """The colour with as much white as it needs to be seen on a dark background; one that is light enough stays."""
    red, green, blue = _parsed(colour)
    for step in range(STEPS + 1):
        share = step / STEPS
        lighter = tuple(round(value + (255 - value) * share) for value in (red, green, blue))
        if contrast(_written(lighter), DARK_BACKGROUND) >= DARK_CONTRAST_MIN:
            return _written(lighter)
    return "#ffffff"


def contrast(one: str, other: str) -> float:
    """Contrast ratio after WCAG 2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio), from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _parsed(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _parsed(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _written(values: tuple[int, ...]) -> str:
    return "#" + "".join(f"{value:02x}" for value in values)
