"""The data of a study's figure for print: one panel with both scales, and names for as many placements as fit. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.compiled_series import Series
from bench.report.frontier_data import AXIS_MARGIN, FrontierData, KeyEntry, Mark, MemoryLine, Panel
from bench.report.label_layout import axis_shares, spread_out

APART = 0.05
"""Share of a panel's width or height that named placements are apart at least, so that numbers stand at their marks."""
NAMED = {1: 8, 2: 16}
"""Columns → placements at most that get a number and a line of the key. The table beside the figure has them all."""
LEAST_DATA_SHARE = 0.75
"""A memory line is drawn where marks still take this share of the axis; else the caption says it."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A second axis: what stands on the first, times a factor."""

    label: str
    factor: float


@dataclass(frozen=True, kw_only=True)
class PublicationData:
    panel: Panel | None
    """Relative to the reference where there is one, else absolute; tags of the named placements alone. None where
    nothing was measured."""
    memory: Scale | None
    """Absolute units, for a relative panel."""
    time: Scale | None
    key: tuple[KeyEntry, ...]
    """Of the named placements, from the highest peak to the lowest. Numbers are those of the whole frontier."""
    share_header: str
    families: tuple[str, ...]
    lines_inside: tuple[MemoryLine, ...]
    """Drawn, and named by the legend."""
    lines_beyond: tuple[MemoryLine, ...]
    """Beyond the axis: for the caption to say."""
    has_invalid: bool
    """Whether something was measured that is not valid."""
    num_frontier: int
    headline: str


def publication_data(data: FrontierData, limit: int, series: Sequence[Series] = ()) -> PublicationData:
    """Takes one panel of a frontier's plot and names at most `limit` placements on it.

    The knee and the frontier's ends are named, and then those farthest from all that are.

    Args:
        series: what was compiled, in the units of the first panel.
    """
    panel = data.panels[0] if data.panels else None
    absolute = next((other for other in data.panels if not other.is_relative), None)
    memory = time = None
    key: list[KeyEntry] = []
    if panel is not None:
        if panel.is_relative and absolute is not None:
            memory, time = _scales(panel, absolute)
        panel = _cropped(panel, series)
        key = _named(data.key, panel, limit)
        panel = _tagged(panel, {entry.tag for entry in key})
    lines = panel.lines if panel is not None else ()
    return PublicationData(
        panel=panel,
        memory=memory,
        time=time,
        key=tuple(key),
        share_header=data.share_header,
        families=data.families,
        lines_inside=tuple(line for line in lines if line.is_inside),
        lines_beyond=tuple(line for line in lines if not line.is_inside),
        has_invalid=panel is not None and any(not mark.is_valid for mark in panel.marks),
        num_frontier=len(data.key),
        headline=data.headline,
    )


def named_placements(data: PublicationData, frontier: Sequence[str]) -> tuple[str, ...]:
    """Of all of a frontier's placements, in its order, those that the figure names."""
    return tuple(frontier[int(entry.tag) - 1] for entry in data.key)


def _named(key: Sequence[KeyEntry], panel: Panel, limit: int) -> list[KeyEntry]:
    marks = {mark.tag: mark for mark in panel.marks if mark.tag}
    entries = [entry for entry in key if entry.tag in marks]
    if not entries:
        return []
    marked = [marks[entry.tag] for entry in entries]
    places = [axis_shares((mark.x, mark.y), panel.x_limits, panel.y_limits) for mark in marked]
    knee = [index for index, entry in enumerate(entries) if entry.is_knee]
    return [entries[index] for index in spread_out(places, limit, [*knee, 0, len(entries) - 1], APART)]


def _tagged(panel: Panel, named: set[str]) -> Panel:
    marks = tuple(mark if mark.tag in named else dataclasses.replace(mark, tag="") for mark in panel.marks)
    return dataclasses.replace(panel, marks=marks)


def _cropped(panel: Panel, series: Sequence[Series]) -> Panel:
    """Without memory lines that take much of the axis: a column has no room for it, and the caption can say them."""
    xs = [mark.x for mark in panel.marks] + [mark.x for one in series for mark in one.marks]
    low, high = min(xs), max(xs)
    lines = []
    for line in panel.lines:
        wider = max(high, line.x) - min(low, line.x)
        is_inside = line.is_inside and high > low and high - low >= LEAST_DATA_SHARE * wider
        if is_inside:
            low, high = min(low, line.x), max(high, line.x)
        lines.append(dataclasses.replace(line, is_inside=is_inside, is_below=line.x < low))
    margin = AXIS_MARGIN * (high - low)
    limits = (low - margin, high + margin) if margin else panel.x_limits
    return dataclasses.replace(panel, x_limits=limits, lines=tuple(lines))


def _scales(relative: Panel, absolute: Panel) -> tuple[Scale | None, Scale | None]:
    """From a share to a size and from a ratio to a time: one factor each, as both panels show the same figures."""
    mark, other = _in_both(relative, absolute)
    if mark is None or other is None:
        return None, None
    return (
        Scale(label=absolute.x_label, factor=other.x / mark.x),
        Scale(label=absolute.y_label, factor=other.y / mark.y),
    )


def _in_both(relative: Panel, absolute: Panel) -> tuple[Mark | None, Mark | None]:
    others = {mark.label: mark for mark in absolute.marks}
    mark = next((mark for mark in relative.marks if mark.label in others and mark.x > 0 and mark.y > 0), None)
    return mark, None if mark is None else others[mark.label]
