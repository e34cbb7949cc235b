"""The data of the frontier plot: which mark stands where, in both panels. Pure; `frontier_plot` draws it."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.frontier.types import Frontier, Trial
from bench.report.families import FAMILIES, family_of
from bench.report.labels import common_prefix, short_label
from bench.report.names import long_names
from bench.report.quantities import Unit, memory_unit, ratio_text, share_text, time_unit
from bench.report.reasons import brief
from bench.report.shares import memory_reference, peak_share, persistent_floor

MIN_TIME_ROOM = 0.05
"""Share of the slowest mark that intervals may reach beyond the marks, at least."""
MIN_DATA_SHARE = 0.3
"""A line (persistent floor, capacity) is drawn if the marks still take this share of the axis; else it is a note."""

AXIS_MARGIN = 0.07
"""Free space beyond the outermost mark, as a share of the axis."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One placement in one panel, in the panel's units."""

    label: str
    family: str
    x: float
    y: float
    y_low: float
    y_high: float
    tag: str
    """`1`, `2` … on the frontier, `a`, `b` … for a measured placement that is not valid, empty for a dominated one."""
    on_frontier: bool
    is_knee: bool
    is_valid: bool


@dataclass(frozen=True, kw_only=True)
class MemoryLine:
    """A vertical line, or where it lies beyond the axis a note at its edge."""

    label: str
    x: float
    is_inside: bool
    is_below: bool
    """Where it is not inside: whether it lies to the left of the axis."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    is_relative: bool
    """Peak and time are shares of the reference's; else in units that the axis labels name."""
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    steps: tuple[tuple[float, float], ...]
    """Corners of the frontier's step line from the lowest peak to the highest: with memory between two frontier
    points, the best time is that of the one with less memory."""
    lines: tuple[MemoryLine, ...]
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class KeyEntry:
    """What a frontier point's number stands for."""

    tag: str
    label: str
    family: str
    ratio: str
    peak: str
    share: str
    is_knee: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A placement that is not scored; `tag` is empty where it has no values to plot."""

    tag: str
    label: str
    outcome: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FrontierData:
    panels: tuple[Panel, ...]
    """Relative to the reference, then absolute; a panel without marks is left out."""
    key: tuple[KeyEntry, ...]
    """Frontier points from the highest peak to the lowest."""
    failures: tuple[Failure, ...]
    families: tuple[str, ...]
    """Families that have a mark, in the fixed order of FAMILIES."""
    prefix: str
    """Taken off every label."""
    share_header: str
    """What the key's shares are of: `of ref.`, or a forecast."""
    headline: str
    """Says why where there is nothing to draw; else empty."""


def frontier_data(frontier: Frontier) -> FrontierData:
    """Works out everything that the plot shows."""
    prefix = common_prefix(trial.placement for trial in frontier.trials)
    names = long_names(frontier.trials)
    labels = {t.placement: names.get(t.placement, short_label(t.placement, prefix)) for t in frontier.trials}
    tags = _tags(frontier)
    panels = tuple(
        panel
        for panel in (_relative_panel(frontier, tags, labels), _absolute_panel(frontier, tags, labels))
        if panel.marks
    )
    drawn = {mark.family for panel in panels for mark in panel.marks if mark.is_valid}
    return FrontierData(
        panels=panels,
        key=_key(frontier, tags, labels),
        failures=_failures(frontier, tags, labels),
        families=tuple(family for family in FAMILIES if family in drawn),
        prefix=prefix,
        share_header="of ref." if frontier.plain_forecast is None else "of forecast",
        headline=_headline(frontier, bool(panels)),
    )


def step_corners(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Corners of the boundary of what `points` attain when both axes are minimised."""
    # y
    # │ 3────┐        from a point to the right at its own time,
    # │      2───┐    then down to the next point
    # │          1
    # └──────────── x
    corners: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return tuple(corners)


def _relative_panel(frontier: Frontier, tags: dict[str, str], labels: Mapping[str, str]) -> Panel:
    reference = memory_reference(frontier)
    marks = []
    for trial in frontier.trials:
        share = peak_share(trial, reference)
        if share is not None and trial.time_ratio is not None:
            interval = trial.time_ratio_interval
            low, high = (interval.low, interval.high) if interval else (trial.time_ratio, trial.time_ratio)
            marks.append(_mark(frontier, trial, tags, labels, share, trial.time_ratio, low, high))
    name = labels.get(frontier.reference or "", "reference")
    name = name if len(name) <= 24 else "reference"
    scale = reference.peak_allocated_bytes if reference is not None else None
    title, whose = f"Relative to {name}", f"{name}'s"
    if frontier.plain_forecast is not None:  # an axis must not pass a forecast for a measurement
        title, whose = "Relative", "forecast of none"
    return _panel(
        title,
        f"Peak allocated memory / {whose}",
        f"Step time / {name}'s",
        marks,
        _memory_lines(frontier, scale or 1),
        is_relative=True,
    )


def _absolute_panel(frontier: Frontier, tags: dict[str, str], labels: Mapping[str, str]) -> Panel:
    memory, time = _units(frontier)
    marks = []
    for trial in frontier.trials:
        ms = frontier.paired_step_time_ms(trial)
        if trial.peak_allocated_bytes is not None and ms is not None:
            low = high = y = time.of(ms)
            if trial.time_ratio is not None and trial.time_ratio_interval is not None:
                low, high = (
                    y * end / trial.time_ratio
                    for end in (trial.time_ratio_interval.low, trial.time_ratio_interval.high)
                )
            marks.append(_mark(frontier, trial, tags, labels, memory.of(trial.peak_allocated_bytes), y, low, high))
    lines = _memory_lines(frontier, memory.size)
    return _panel("Absolute", f"Peak allocated memory ({memory.name})", f"Step time ({time.name})", marks, lines)


def _family(frontier: Frontier, trial: Trial) -> str:
    """A twin is shown as the placement that it stands for."""
    original = next((one for one in frontier.trials if one.placement == trial.twin_of), trial)
    return family_of(original.generators)


def _mark(
    frontier: Frontier,
    trial: Trial,
    tags: dict[str, str],
    labels: Mapping[str, str],
    x: float,
    y: float,
    low: float,
    high: float,
) -> Mark:
    return Mark(
        label=labels[trial.placement],
        family=_family(frontier, trial),
        x=x,
        y=y,
        y_low=min(low, y),
        y_high=max(high, y),
        tag=tags.get(trial.placement, ""),
        on_frontier=trial.placement in frontier.frontier,
        is_knee=trial.placement == frontier.knee,
        is_valid=trial.outcome == "ok",
    )


def _panel(
    title: str, x_label: str, y_label: str, marks: list[Mark], lines: list[tuple[str, float]], is_relative: bool = False
) -> Panel:
    xs = [mark.x for mark in marks]
    x_range, memory_lines = _place_lines(min(xs, default=0.0), max(xs, default=1.0), lines)
    return Panel(
        title=title,
        is_relative=is_relative,
        x_label=x_label,
        y_label=y_label,
        marks=tuple(marks),
        steps=step_corners((mark.x, mark.y) for mark in marks if mark.on_frontier),
        lines=memory_lines,
        x_limits=_widened(*x_range),
        y_limits=_widened(*_time_range(marks)),
    )


def _time_range(marks: list[Mark]) -> tuple[float, float]:
    """Holds all marks, and their intervals as far as those do not dwarf the marks."""
    if not marks:
        return 0.0, 1.0
    low, high = min(mark.y for mark in marks), max(mark.y for mark in marks)
    room = max(high - low, MIN_TIME_ROOM * high)
    return max(min(m.y_low for m in marks), low - room), min(max(m.y_high for m in marks), high + room)


def _place_lines(
    low: float, high: float, lines: list[tuple[str, float]]
) -> tuple[tuple[float, float], tuple[MemoryLine, ...]]:
    """Widens the range to each line in turn, as long as the marks keep their share of it."""
    span = high - low
    placed = []
    for label, x in lines:
        wider_low, wider_high = min(low, x), max(high, x)
        is_inside = span > 0 and span >= MIN_DATA_SHARE * (wider_high - wider_low)
        if is_inside:
            low, high = wider_low, wider_high
        placed.append(MemoryLine(label=label, x=x, is_inside=is_inside, is_below=x < low))
    return (low, high), tuple(placed)


def _widened(low: float, high: float) -> tuple[float, float]:
    margin = (high - low) * AXIS_MARGIN or abs(high) * AXIS_MARGIN or 1.0
    return low - margin, high + margin


def _memory_lines(frontier: Frontier, bytes_per_unit: float) -> list[tuple[str, float]]:
    lines = []
    for name, num_bytes in (("persistent", persistent_floor(frontier)), ("capacity", frontier.capacity_bytes)):
        if num_bytes is not None:
            unit = memory_unit([num_bytes])
            lines.append((f"{name} {unit.text(num_bytes)} {unit.name}", num_bytes / bytes_per_unit))
    return lines


def _tags(frontier: Frontier) -> dict[str, str]:
    """Numbers for the frontier, letters for what was measured and is not valid."""
    tags = {placement: str(number) for number, placement in enumerate(frontier.frontier, start=1)}
    measured = [t for t in frontier.trials if t.outcome != "ok" and _has_values(t)]
    return tags | {trial.placement: _letters(index) for index, trial in enumerate(measured)}


def _has_values(trial: Trial) -> bool:
    return trial.peak_allocated_bytes is not None and trial.step_time_ms is not None


def _letters(index: int) -> str:
    alphabet = string.ascii_lowercase
    return alphabet[index] if index < len(alphabet) else _letters(index // len(alphabet) - 1) + _letters(index % 26)


def _key(frontier: Frontier, tags: dict[str, str], labels: Mapping[str, str]) -> tuple[KeyEntry, ...]:
    memory, _ = _units(frontier)
    reference = memory_reference(frontier)
    trials = {trial.placement: trial for trial in frontier.trials}
    return tuple(
        KeyEntry(
            tag=tags[placement],
            label=labels[placement],
            family=_family(frontier, trial),
            ratio=ratio_text(trial.time_ratio, trial.time_ratio_interval, placement == frontier.reference),
            peak=f"{memory.text(trial.peak_allocated_bytes)} {memory.name}",
            share=share_text(peak_share(trial, reference), decimals=0),
            is_knee=placement == frontier.knee,
        )
        for placement in frontier.frontier
        for trial in [trials[placement]]
    )


def _failures(frontier: Frontier, tags: dict[str, str], labels: Mapping[str, str]) -> tuple[Failure, ...]:
    return tuple(
        Failure(
            tag=tags.get(trial.placement, ""),
            label=labels[trial.placement],
            outcome=trial.outcome,
            reason=brief(trial.reason),
        )
        for trial in frontier.trials
        if trial.outcome != "ok"
    )


def _units(frontier: Frontier) -> tuple[Unit, Unit]:
    return (
        memory_unit(trial.peak_allocated_bytes for trial in frontier.trials),
        time_unit(trial.step_time_ms for trial in frontier.trials),
    )


def _headline(frontier: Frontier, has_marks: bool) -> str:
    if not frontier.trials:
        return "The study has no placement yet."
    return "" if has_marks else "No placement was measured."
