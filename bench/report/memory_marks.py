"""What stands above and below the panel of a memory picture: phases, passes of regions, modules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bench.report.memory_axis import PhaseSpan
from bench.report.memory_data import PassBar
from bench.report.memory_modules import ModuleRun
from bench.report.memory_words import phase_names
from bench.report.page import GREY, INK, text_width, write
from bench.trace.log import REPLAY

PHASES_HEIGHT = 0.17
LANE_HEIGHT = 0.11
MAX_LANES = 3
MODULES_HEIGHT = 0.3
SHADES = ("#f3f4f6", "#ffffff")
"""Behind phases, by turns."""
FIRST_COLOUR, REPLAY_COLOUR = "#d9d9d9", "#d55e00"
HATCH = "////////"
LABEL_GAP = 0.03
"""Inches that a label keeps free of its stretch."""

Place = Callable[[float], float]
"""From the axis to inches from the left of the page."""


def draw_phases(layer: Axes, phases: Sequence[PhaseSpan], place: Place, top: float, bottom: float) -> None:
    """Shades the phases from `top` to `bottom` and names them above."""
    num_micro_batches = 1 + max((span.micro_batch for span in phases), default=0)
    for index, span in enumerate(phases):
        left, right = place(span.left), place(span.right)
        layer.add_patch(
            Rectangle((left, top), right - left, bottom - top, fc=SHADES[index % 2], lw=0, zorder=0, label="phase")
        )
        if index:
            layer.plot([left, left], [top - PHASES_HEIGHT, bottom], color=GREY, lw=0.5, zorder=4)
        names = phase_names(span.phase, span.micro_batch, num_micro_batches)
        fitting = next((name for name in names if text_width(name) <= right - left - LABEL_GAP), "")
        write(layer, (left + right) / 2, top - PHASES_HEIGHT / 2, fitting, ha="center")


def num_lanes(passes: Sequence[PassBar]) -> int:
    """Rows for passes inside others; the deepest share the last."""
    return min(1 + max((bar.depth for bar in passes), default=-1), MAX_LANES)


def draw_passes(layer: Axes, passes: Sequence[PassBar], place: Place, top: float) -> None:
    """A bar for each pass of a region: plain in the forward, hatched as it is replayed."""
    for bar in passes:
        y = top + min(bar.depth, MAX_LANES - 1) * LANE_HEIGHT + 0.015
        left, right = place(bar.left), place(bar.right)
        shape = (left, y), max(right - left, 0.005), LANE_HEIGHT - 0.03
        if bar.kind == REPLAY:
            layer.add_patch(
                Rectangle(*shape, fc="white", ec=REPLAY_COLOUR, hatch=HATCH, lw=0.5, zorder=3, label="replay")
            )
        else:
            layer.add_patch(Rectangle(*shape, fc=FIRST_COLOUR, ec=GREY, lw=0.4, zorder=3, label="first pass"))


def draw_modules(layer: Axes, runs: Sequence[ModuleRun], place: Place, top: float) -> None:
    """Numbers of modules, thinned where they are narrow, and below them what is numbered; only names that fit."""
    groups = {run.group for run in runs}
    for _, members in itertools.groupby(runs, key=lambda run: (run.group, run.phase)):
        stretch = list(members)
        left, right = place(stretch[0].left), place(stretch[-1].right)
        step = number_step((right - left) / len(stretch), max(text_width(run.number) for run in stretch) + 0.02)
        for run in stretch:
            x0, x1 = place(run.left), place(run.right)
            layer.plot([x0, x0], [top, top + 0.04], color=GREY, lw=0.4)
            fits = text_width(run.number) <= x1 - x0 - 0.02 if step == 1 else left + 0.05 < (x0 + x1) / 2 < right - 0.05
            if run.number and int(run.number) % step == 0 and fits:
                write(layer, (x0 + x1) / 2, top + MODULES_HEIGHT / 4 + 0.01, run.number, ha="center", color=GREY)
        y = top + 3 * MODULES_HEIGHT / 4
        name = next(
            (n for n in shorter_names(stretch[0].group, groups) if text_width(n) <= right - left - LABEL_GAP), ""
        )
        write(layer, (left + right) / 2, y, name, ha="center", color=INK)
        if len(stretch) > 1 and name:
            layer.plot([left + 0.02, right - 0.02], [y - 0.075] * 2, color=GREY, lw=0.4)


def number_step(width: float, needed: float) -> int:
    """Every how many-th number is written, where each has `width` and its text needs `needed`."""
    return next((step for step in (1, 2, 5, 10, 20, 50, 100) if step * width >= needed), 1000)


def shorter_names(name: str, others: Collection[str]) -> list[str]:
    """`name`, then ends and beginnings of it that are part of no other name.

    >>> shorter_names("transformer.h", {"transformer.h", "transformer.wte"})
    ['transformer.h', 'h']
    >>> shorter_names("encoder.block", {"encoder.block", "decoder.block"})
    ['encoder.block', 'encoder']
    """
    parts = name.split(".")
    ends = [parts[index:] for index in range(1, len(parts))]
    beginnings = [parts[:index] for index in range(len(parts) - 1, 0, -1)]
    rest = [f".{other}." for other in others if other != name]
    shorter = map(".".join, ends + beginnings)
    return [name, *(part for part in shorter if not any(f".{part}." in other for other in rest))]
