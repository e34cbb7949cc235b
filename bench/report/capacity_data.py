"""The data of the second frontier, throughput against size: which mark stands where. Pure; `capacity_plot` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.capacity.reading import ENDED_WORDS, heading, none_row, times_text
from bench.capacity.types import Answer
from bench.report.capacity_caption import capacity_caption, throughput_caption
from bench.report.capacity_points import rates, tags_of, timed_points
from bench.report.capacity_words import families, limit_unit, margin_text, rate_text, relative_text, shortening
from bench.report.families import FAMILIES
from bench.report.frontier_data import AXIS_MARGIN
from bench.report.reasons import brief

MIN_RATE_ROOM = 0.05
"""Share of the highest throughput that intervals may reach beyond the marks, at least."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One placement at one size."""

    label: str
    family: str
    size: float
    rate: float
    """Units a second: that of `none` times the paired ratio, so that all marks share one state of the machine."""
    rate_low: float
    rate_high: float
    tag: str
    """`1`, `2` … from the smallest size on; `none` for none's own largest size; empty where the key has it not."""
    on_frontier: bool
    is_none: bool
    """Where the second axes have their 1."""
    is_largest: bool
    """The placement's own largest size; else it was timed there for a multiple of none's."""


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    tag: str
    label: str
    family: str
    on_frontier: bool
    cells: tuple[str, ...]
    """One a header of the key."""


@dataclass(frozen=True, kw_only=True)
class NotShown:
    """A placement without a mark."""

    label: str
    ended: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CapacityData:
    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    traces: tuple[tuple[tuple[float, float], ...], ...]
    """Of each placement that was timed at several sizes, its marks in order of size."""
    steps: tuple[tuple[float, float], ...]
    """Corners of the frontier's line from the smallest size to the largest."""
    none_size: float | None
    """What the upper axis is relative to; None where none was not timed."""
    none_rate: float | None
    multiples: tuple[float, ...]
    """Sizes that are asked-for multiples of none's, inside the axis."""
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]
    headers: tuple[str, ...]
    key: tuple[KeyRow, ...]
    """What has a tag, from the smallest size to the largest."""
    not_shown: tuple[NotShown, ...]
    families: tuple[str, ...]
    """That have a mark, in the order of FAMILIES."""
    caption: str
    headline: str
    """Says why where there is nothing to draw; else empty."""


def capacity_data(answer: Answer) -> CapacityData:
    """Works out everything that the figure shows."""
    marks = _marks(answer)
    none = next((mark for mark in marks if mark.is_none), None)
    sizes = [at.size for at in answer.at_multiples if at.size is not None]
    widest = max((mark.size for mark in marks), default=0.0)
    inside = tuple(float(size) for size in sizes if size <= widest)
    drawn = {mark.family for mark in marks}
    return CapacityData(
        title=f"{answer.spec.name}: {heading(answer)}",
        x_label=f"{answer.spec.axis.name} that trains within the limit".capitalize(),
        y_label=f"{answer.unit.capitalize()} a second",
        marks=marks,
        traces=_traces(marks),
        steps=best_corners((mark.size, mark.rate) for mark in marks if mark.on_frontier),
        none_size=None if none is None else none.size,
        none_rate=None if none is None else none.rate,
        multiples=inside,
        x_limits=_widened([mark.size for mark in marks] + [*inside]),
        y_limits=_rate_limits(marks),
        headers=("size", "times none's", "throughput", "of none's", f"left, {limit_unit(answer).name}"),
        key=_key(answer),
        not_shown=_not_shown(answer),
        families=tuple(family for family in FAMILIES if family in drawn),
        caption=f"{capacity_caption(answer)} {throughput_caption(answer)}".strip(),
        headline="" if marks else "No placement was timed.",
    )


def best_corners(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Corners of the boundary of what `points` attain when both axes are maximised."""
    # y
    # │ 1
    # │ └───2          a size between two points is attained by the larger one,
    # │     └────3     at that one's throughput
    # └──────────── x
    corners: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if corners:
            corners.append((corners[-1][0], y))
        corners.append((x, y))
    return tuple(corners)


def _marks(answer: Answer) -> tuple[Mark, ...]:
    way, family_of, tags = shortening(answer), families(answer), tags_of(answer)
    marks = []
    for point in timed_points(answer):
        rate, low, high = rates(answer, point)
        marks.append(
            Mark(
                label=way.label(point.placement),
                family=family_of[point.placement],
                size=float(point.size),
                rate=rate,
                rate_low=low,
                rate_high=high,
                tag=tags.get(point, ""),
                on_frontier=point.on_frontier,
                is_none=point.is_none,
                is_largest=point.is_largest,
            )
        )
    return tuple(marks)


def _traces(marks: Sequence[Mark]) -> tuple[tuple[tuple[float, float], ...], ...]:
    of_label: dict[str, list[tuple[float, float]]] = {}
    for mark in marks:
        of_label.setdefault(mark.label, []).append((mark.size, mark.rate))
    return tuple(tuple(sorted(points)) for points in of_label.values() if len(points) > 1)


def _key(answer: Answer) -> tuple[KeyRow, ...]:
    way, family_of, unit = shortening(answer), families(answer), limit_unit(answer)
    rows, none = {row.placement: row for row in answer.rows}, none_row(answer)
    none_size = None if none is None else none.largest
    return tuple(
        KeyRow(
            tag=tag,
            label=way.label(point.placement),
            family=family_of[point.placement],
            on_frontier=point.on_frontier,
            cells=(
                str(point.size),
                times_text(None if none_size is None else point.size / none_size),
                rate_text(point.throughput),
                relative_text(point.throughput, is_none=point.is_none),
                margin_text(rows[point.placement], unit) if point.is_largest else "",
            ),
        )
        for point, tag in tags_of(answer).items()
    )


def _not_shown(answer: Answer) -> tuple[NotShown, ...]:
    way = shortening(answer)
    return tuple(
        NotShown(
            label=way.label(row.placement),
            ended=ENDED_WORDS.get(row.ended, row.ended) if row.largest is None else "not timed",
            reason=brief(row.reason) if row.largest is None else f"fits up to {row.largest}",
        )
        for row in answer.rows
        if row.throughput is None
    )


def _rate_limits(marks: Sequence[Mark]) -> tuple[float, float]:
    """Holds all marks, and their intervals as far as those do not dwarf the marks."""
    if not marks:
        return 0.0, 1.0
    low, high = min(mark.rate for mark in marks), max(mark.rate for mark in marks)
    room = max(high - low, MIN_RATE_ROOM * high)
    lowest, highest = min(mark.rate_low for mark in marks), max(mark.rate_high for mark in marks)
    return _widened([max(lowest, low - room), min(highest, high + room), low, high])


def _widened(values: Sequence[float]) -> tuple[float, float]:
    found = values or [0.0, 1.0]
    low, high = min(found), max(found)
    margin = (high - low) * AXIS_MARGIN or abs(high) * AXIS_MARGIN or 1.0
    return low - margin, high + margin
