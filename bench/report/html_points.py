"""What the HTML report's plot and table show of each placement: where its mark lies, and its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.frontier import OK
from bench.frontier.types import Frontier, Trial, relative_width
from bench.records import PLAIN
from bench.report.frontier_data import FrontierData, Panel
from bench.report.labels import short_label
from bench.report.names import long_names
from bench.report.quantities import (
    ABSENT,
    Unit,
    error_text,
    memory_unit,
    ratio_text,
    share_text,
    time_text,
    time_unit,
    typical_width,
)
from bench.report.shares import memory_reference, peak_share, reference_trial, replay_share, saving_share
from bench.report.table import FRONTIER_MARK, KNEE_MARK


@dataclass(frozen=True, kw_only=True)
class Place:
    """A mark in one panel, in the panel's units."""

    x: float
    y: float
    low: float
    high: float
    expected: tuple[float, float] | None
    """Where it was expected to be; None where nothing was planned of it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    text: str
    key: float | str | None = None
    """What the table is sorted by; None sorts last."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One placement of the study."""

    trial: Trial
    label: str
    tag: str
    """Number on the frontier, letter of one that was measured and is not valid, or empty."""
    family: str
    places: tuple[Place | None, ...]
    """One a panel of the frontier plot; None where it has no mark there."""
    cells: tuple[Cell, ...]
    """One a column."""
    brief: tuple[str, ...]
    """Lines for a pointer that rests on the mark."""


@dataclass(frozen=True, kw_only=True)
class Column:
    title: str
    is_number: bool


def columns_of(frontier: Frontier) -> tuple[Column, ...]:
    """Titles, with the unit where there is one."""
    memory, time = _units(frontier)
    of = "of ref." if frontier.plain_forecast is None else "of none’s forecast"
    numbers = (f"step ({time.name})", "time ratio")
    more = (f"peak ({memory.name})", of, "saved", "replay", "sure", "forecast error")
    return (
        Column(title="", is_number=False),
        Column(title="placement", is_number=False),
        *(Column(title=title, is_number=True) for title in numbers),
        Column(title="verdict", is_number=False),
        *(Column(title=title, is_number=True) for title in more),
        Column(title="replay audited", is_number=False),
    )


def points_of(frontier: Frontier, data: FrontierData) -> tuple[Point, ...]:
    """All placements, those on the frontier first, from its highest peak to its lowest; then the other measured ones,
    then those that are not scored.

    Args:
        data: `frontier_data(frontier)`.
    """
    names = long_names(frontier.trials)
    labels = {t.placement: names.get(t.placement, short_label(t.placement, data.prefix)) for t in frontier.trials}
    marks = [{mark.label: mark for mark in panel.marks} for panel in data.panels]
    failed = [trial.placement for trial in frontier.trials if trial.outcome != OK]
    tags = {placement: str(number) for number, placement in enumerate(frontier.frontier, start=1)}
    tags |= {placement: failure.tag for placement, failure in zip(failed, data.failures, strict=True)}
    row = _Rows(frontier)
    found = []
    for trial in sorted(frontier.trials, key=lambda trial: _rank(trial, frontier)):
        label, tag = labels[trial.placement], tags.get(trial.placement, "")
        there = [of_panel.get(label) for of_panel in marks]
        places = tuple(
            None
            if mark is None
            else Place(x=mark.x, y=mark.y, low=mark.y_low, high=mark.y_high, expected=_expected(trial, frontier, panel))
            for panel, mark in zip(data.panels, there, strict=True)
        )
        family = next((mark.family for mark in there if mark is not None), "")
        cells = row.cells(trial, label, tag)
        found.append(
            Point(
                trial=trial,
                label=label,
                tag=tag,
                family=family,
                places=places,
                cells=cells,
                brief=row.brief(trial, label, tag),
            )
        )
    return tuple(found)


def _rank(trial: Trial, frontier: Frontier) -> tuple[int, float]:
    if trial.placement in frontier.frontier:
        return 0, frontier.frontier.index(trial.placement)
    return (1 if trial.outcome == OK else 2), -(trial.peak_allocated_bytes or 0)


def _expected(trial: Trial, frontier: Frontier, panel: Panel) -> tuple[float, float] | None:
    """Peak and time that were expected of a planned placement, in the panel's units; ratios are to `none` then."""
    reference, weighed_against = reference_trial(frontier), memory_reference(frontier)
    if trial.expected_peak_bytes is None or trial.expected_replay_ms is None:
        return None
    if reference is None or reference.placement != PLAIN or not reference.step_time_ms or weighed_against is None:
        return None
    ratio = 1 + trial.expected_replay_ms / reference.step_time_ms
    if panel.is_relative:
        return trial.expected_peak_bytes / weighed_against.peak_allocated_bytes, ratio
    memory, time = _units(frontier)
    return memory.of(trial.expected_peak_bytes), time.of(reference.step_time_ms) * ratio


def _units(frontier: Frontier) -> tuple[Unit, Unit]:
    """As in the frontier plot."""
    return (
        memory_unit(trial.peak_allocated_bytes for trial in frontier.trials),
        time_unit(trial.step_time_ms for trial in frontier.trials),
    )


class _Rows:
    """Texts of a study's placements; units and digits are chosen once."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._memory, self._time = _units(frontier)
        self._weighed_against = memory_reference(frontier)
        reference = reference_trial(frontier)
        self._step_flops = reference.step_flops if reference else None
        self._typical = typical_width(frontier.trials)

    def cells(self, trial: Trial, label: str, tag: str) -> tuple[Cell, ...]:
        of, saved, replay = self._shares(trial)
        order = self._frontier.frontier.index(trial.placement) if trial.placement in self._frontier.frontier else None
        return (
            Cell(text=self._mark(trial, tag), key=order),
            Cell(text=label + (" (reference)" if trial.placement == self._frontier.reference else ""), key=label),
            Cell(text=self._step(trial), key=self._frontier.paired_step_time_ms(trial)),
            Cell(text=self._ratio(trial), key=trial.time_ratio),
            Cell(text=self._verdict(trial), key=self._verdict(trial) or None),
            Cell(text=self._memory.text(trial.peak_allocated_bytes), key=trial.peak_allocated_bytes),
            Cell(text=share_text(of), key=of),
            Cell(text=share_text(saved), key=saved),
            Cell(text=share_text(replay), key=replay),
            Cell(text=share_text(trial.frontier_confidence, decimals=0), key=trial.frontier_confidence),
            Cell(text=error_text(trial.forecast_error_share), key=trial.forecast_error_share),
            Cell(text=trial.audit or ABSENT, key=trial.audit),
        )

    def brief(self, trial: Trial, label: str, tag: str) -> tuple[str, ...]:
        of, saved, _ = self._shares(trial)
        lines = [f"{self._mark(trial, tag)} {label}".strip()]
        if trial.time_ratio is not None:
            interval = trial.time_ratio_interval
            is_reference = trial.placement == self._frontier.reference
            ends = f" ({interval.low:.4g} to {interval.high:.4g})" if interval and not is_reference else ""
            of_step = f", {self._step(trial)} {self._time.name}" if trial.step_time_ms is not None else ""
            lines.append(f"time {self._ratio(trial)}{ends}{of_step}")
        if trial.peak_allocated_bytes is not None:
            against = f", {share_text(of)}; saved {share_text(saved)}" if of is not None else ""
            lines.append(f"peak {self._memory.text(trial.peak_allocated_bytes)} {self._memory.name}{against}")
        lines.append(self._standing(trial))
        return tuple(lines)

    def _standing(self, trial: Trial) -> str:
        if trial.outcome != OK:
            return f"{trial.outcome}: not on the frontier"
        sure = f" ({share_text(trial.frontier_confidence, 0)} sure)" if trial.frontier_confidence else ""
        knee = ", its knee" if trial.placement == self._frontier.knee else ""
        place = f"on the frontier{knee}{sure}" if trial.placement in self._frontier.frontier else "not on the frontier"
        return ", ".join(filter(None, (self._verdict(trial), place)))

    def _shares(self, trial: Trial) -> tuple[float | None, float | None, float | None]:
        """Of the reference's peak, of what could move, of the reference's FLOPs."""
        return (
            peak_share(trial, self._weighed_against),
            saving_share(trial.peak_allocated_bytes, self._weighed_against),
            replay_share(trial.replay_flops, self._step_flops),
        )

    def _mark(self, trial: Trial, tag: str) -> str:
        if trial.placement == self._frontier.knee:
            return f"{KNEE_MARK} {tag}"
        return f"{FRONTIER_MARK} {tag}" if trial.placement in self._frontier.frontier else tag

    def _step(self, trial: Trial) -> str:
        width = relative_width(trial.time_ratio, trial.time_ratio_interval)
        return time_text(self._frontier.paired_step_time_ms(trial), self._time, width or self._typical)

    def _ratio(self, trial: Trial) -> str:
        is_reference = trial.placement == self._frontier.reference
        return ratio_text(trial.time_ratio, trial.time_ratio_interval, is_reference)

    def _verdict(self, trial: Trial) -> str:
        return trial.outcome if trial.outcome != OK else trial.verdict or ""


def search_text(point: Point) -> str:
    """All that a filter finds a placement by, in small letters."""
    trial = point.trial
    kinds: Sequence[str] = (*trial.generators, *trial.audit_kinds)
    words = (point.label, trial.placement, trial.outcome, trial.verdict or "", trial.audit or "", point.family, *kinds)
    return "\n".join(words).lower()


def axes_data(panel: Panel, points: Sequence[Point], number: int) -> dict[str, object]:
    """One panel for the page's program; `number` is its place among the panels."""

    def place(point: Point) -> Mapping[str, object] | None:
        at = point.places[number]
        if at is None:
            return None
        return {"x": at.x, "y": at.y, "low": at.low, "high": at.high, "expected": at.expected}

    return {
        "title": panel.title,
        "isRelative": panel.is_relative,
        "xLabel": panel.x_label,
        "yLabel": panel.y_label,
        "xLimits": panel.x_limits,
        "yLimits": panel.y_limits,
        "steps": panel.steps,
        "lines": [{"label": line.label, "x": line.x} for line in panel.lines],
        "places": [place(point) for point in points],
    }
