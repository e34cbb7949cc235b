"""The data of a comparison's figures: which mark, line and band stands where. Pure; `compare_plot` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.compare.types import RELATIVE, SCALES, Comparison, Entrant, Pairing, Point
from bench.report.compare_words import (
    comparison_memory_unit,
    difference_sentence,
    explanations,
    is_like_for_like,
    knee_words,
    scale_sentence,
    shortenings,
)
from bench.report.frontier_data import AXIS_MARGIN, MIN_TIME_ROOM, step_corners
from bench.report.quantities import Unit, time_unit

MARGIN_BEYOND = 0.12
"""Share of the memory axis that the last stretch, which goes on for ever, is drawn for."""
MIN_RATIO_ROOM = 0.02
"""The ratio's axis shows at least this much to either side of 1."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    x: float
    y: float
    y_low: float
    y_high: float
    on_frontier: bool
    is_knee: bool


@dataclass(frozen=True, kw_only=True)
class Front:
    """One study in a panel, in the panel's units."""

    index: int
    """Of the study; it decides colour and shape."""
    label: str
    dots: tuple[Dot, ...]
    steps: tuple[tuple[float, float], ...]
    """Corners of its step line from the lowest peak to the highest."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The ratio in one stretch of memory, with its interval where there is one."""

    low: float
    high: float
    ratio: float | None
    """None where one of the two has nothing that fits."""
    ratio_low: float | None
    ratio_high: float | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Course:
    """A candidate's time over the baseline's, along memory."""

    index: int
    label: str
    bands: tuple[Band, ...]


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    is_relative: bool
    x_label: str
    y_label: str
    fronts: tuple[Front, ...] = ()
    courses: tuple[Course, ...] = ()
    budgets: tuple[float, ...] = ()
    """Where budgets stand on the memory axis."""
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    index: int
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class CompareData:
    fronts: tuple[Panel, ...]
    """Relative, then absolute; a panel without marks is left out."""
    courses: tuple[Panel, ...]
    """Likewise; empty where no two studies meet in any memory."""
    key: tuple[KeyRow, ...]
    sentences: tuple[str, ...]
    """What differs, and the indicators."""
    caption: str
    headline: str
    """Says why where there is nothing to draw; else empty."""


def compare_data(comparison: Comparison) -> CompareData:
    """Works out everything that both figures show."""
    memory = comparison_memory_unit(comparison)
    time = time_unit(point.time for entrant in comparison.studies for point in entrant.absolute.points)
    fronts = tuple(panel for scale in SCALES if (panel := _fronts(comparison, scale, memory, time)).fronts)
    courses = tuple(panel for scale in SCALES if (panel := _courses(comparison, scale, memory)).courses)
    baseline = comparison.studies[0]
    told = [difference_sentence(pairing, baseline) for pairing in comparison.pairings]
    others = other_models(comparison)
    told += [
        f"{'Relative' if scale == RELATIVE else 'Absolute'}: {scale_sentence(pairing, baseline, scale, memory)}"
        for pairing in comparison.pairings
        for scale in SCALES
        if scale == RELATIVE or pairing.label not in others
    ]
    if others:
        told.append(other_models_sentence(comparison))
    return CompareData(
        fronts=fronts,
        courses=courses,
        key=_key(comparison),
        sentences=tuple(told),
        caption=_caption(comparison),
        headline="" if fronts else "No placement was measured in any of the studies.",
    )


def other_models(comparison: Comparison) -> tuple[str, ...]:
    """Labels of candidates of another model than the baseline's: bytes and milliseconds share no axis with its."""
    baseline = comparison.studies[0]
    return tuple(entrant.label for entrant in comparison.studies[1:] if entrant.model != baseline.model)


def other_models_sentence(comparison: Comparison) -> str:
    """`Absolute: not drawn for B, which is of another model than A`."""
    others = other_models(comparison)
    are = "which is" if len(others) == 1 else "which are"
    return f"Absolute: not drawn for {', '.join(others)}, {are} of another model than {comparison.studies[0].label}"


def _fronts(comparison: Comparison, scale: str, memory: Unit, time: Unit) -> Panel:
    is_relative = scale == RELATIVE
    others = other_models(comparison)
    x_size, y_size = (1.0, 1.0) if is_relative else (memory.size, time.size)
    found = [
        _front(index, entrant, entrant.plane(scale).points, x_size, y_size)
        for index, entrant in enumerate(comparison.studies)
        if entrant.plane(scale).points and (is_relative or entrant.label not in others)
    ]
    if others and not is_relative and len(found) < 2:
        found = []  # Alone it would be compared with nothing.
    dots = [dot for front in found for dot in front.dots]
    budgets = _budgets(comparison, scale, x_size)
    inside = [x for x in budgets if dots and min(d.x for d in dots) <= x <= max(d.x for d in dots)]
    return Panel(
        title=_title(comparison, scale),
        is_relative=is_relative,
        x_label="Peak allocated memory / own none's" if is_relative else f"Peak allocated memory ({memory.name})",
        y_label="Step time / own reference's" if is_relative else f"Step time ({time.name})",
        fronts=tuple(found),
        budgets=tuple(inside),
        x_limits=_widened(dot.x for dot in dots),
        y_limits=_time_limits(dots),
    )


def _front(index: int, entrant: Entrant, points: Sequence[Point], x_size: float, y_size: float) -> Front:
    dots = tuple(
        Dot(
            x=point.peak / x_size,
            y=point.time / y_size,
            y_low=(point.interval.low if point.interval else point.time) / y_size,
            y_high=(point.interval.high if point.interval else point.time) / y_size,
            on_frontier=point.on_frontier,
            is_knee=point.placement == entrant.knee.placement,
        )
        for point in points
    )
    return Front(
        index=index,
        label=entrant.label,
        dots=dots,
        steps=step_corners((dot.x, dot.y) for dot in dots if dot.on_frontier),
    )


def _courses(comparison: Comparison, scale: str, memory: Unit) -> Panel:
    is_relative = scale == RELATIVE
    size = 1.0 if is_relative else memory.size
    others = other_models(comparison)
    drawn = [pairing for pairing in comparison.pairings if is_relative or pairing.label not in others]
    corners = [stretch.low / size for pairing in drawn for stretch in pairing.against(scale).stretches]
    low, high = min(corners, default=0.0), max(corners, default=1.0)
    end = high + MARGIN_BEYOND * ((high - low) or high)
    courses = [
        Course(index=index, label=pairing.label, bands=_bands(pairing, scale, size, end))
        for index, pairing in enumerate(comparison.pairings, start=1)
        if pairing.against(scale).stretches and (is_relative or pairing.label not in others)
    ]
    baseline = comparison.studies[0].label
    return Panel(
        title=_title(comparison, scale),
        is_relative=is_relative,
        x_label="Memory budget / own none's peak" if is_relative else f"Memory budget ({memory.name})",
        y_label=f"Fastest step within it / {baseline}'s",
        courses=tuple(courses),
        budgets=tuple(x for x in _budgets(comparison, scale, size) if low <= x <= end),
        x_limits=(low - AXIS_MARGIN * (end - low), end),
        y_limits=_ratio_limits(courses),
    )


def _bands(pairing: Pairing, scale: str, size: float, end: float) -> tuple[Band, ...]:
    return tuple(
        Band(
            low=stretch.low / size,
            high=end if stretch.high is None else stretch.high / size,
            ratio=stretch.contest.ratio,
            ratio_low=stretch.contest.interval.low if stretch.contest.interval else None,
            ratio_high=stretch.contest.interval.high if stretch.contest.interval else None,
            verdict=stretch.contest.verdict,
        )
        for stretch in pairing.against(scale).stretches
    )


def _budgets(comparison: Comparison, scale: str, size: float) -> list[float]:
    found = {row.budget / size for p in comparison.pairings for row in p.against(scale).budgets if row.budget}
    return sorted(found)


def _title(comparison: Comparison, scale: str) -> str:
    if scale == RELATIVE:
        return "Relative: each to its own none"
    others = other_models(comparison)
    drawn = [pairing for pairing in comparison.pairings if pairing.label not in others]
    unlike = [pairing.label for pairing in drawn if not is_like_for_like(pairing, scale)]
    return "Absolute" + (f" (not like for like: {', '.join(unlike)})" if unlike else "")


def _time_limits(dots: Sequence[Dot]) -> tuple[float, float]:
    """Holds all marks, and their intervals as far as those do not dwarf the marks."""
    if not dots:
        return 0.0, 1.0
    low, high = min(dot.y for dot in dots), max(dot.y for dot in dots)
    room = max(high - low, MIN_TIME_ROOM * high)
    barred = [dot for dot in dots if dot.on_frontier]
    lowest, highest = min(dot.y_low for dot in barred), max(dot.y_high for dot in barred)
    return _widened([min(low, max(lowest, low - room)), max(high, min(highest, high + room))])


def _ratio_limits(courses: Sequence[Course]) -> tuple[float, float]:
    ratios = [band.ratio for course in courses for band in course.bands if band.ratio is not None]
    low, high = min([*ratios, 1 - MIN_RATIO_ROOM]), max([*ratios, 1 + MIN_RATIO_ROOM])
    room = high - low
    lows = [band.ratio_low for course in courses for band in course.bands if band.ratio_low is not None]
    highs = [band.ratio_high for course in courses for band in course.bands if band.ratio_high is not None]
    return _widened([max(min([*lows, low]), low - room), min(max([*highs, high]), high + room)])


def _widened(values: Iterable[float]) -> tuple[float, float]:
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    margin = (high - low) * AXIS_MARGIN or abs(high) * AXIS_MARGIN or 1.0
    return low - margin, high + margin


def _key(comparison: Comparison) -> tuple[KeyRow, ...]:
    ways = shortenings(comparison)
    rows = []
    for index, entrant in enumerate(comparison.studies):
        whole = [f"{entrant.study}: {entrant.model} on {entrant.device}", _rounds(entrant)]
        whole.append(f"knee: {knee_words(entrant.knee, ways[entrant.label])}" if entrant.relative.points else "")
        rows.append(KeyRow(index=index, label=entrant.label, text="; ".join(part for part in whole if part)))
    return tuple(rows)


def _rounds(entrant: Entrant) -> str:
    if not entrant.rounds:
        return ""
    return f"{entrant.rounds} round{'s' if entrant.rounds > 1 else ''}" + (
        f" in {entrant.executions} executions" if entrant.executions > 1 else ""
    )


def _caption(comparison: Comparison) -> str:
    bound = comparison.reference_point
    sentences = [
        "Lines: what each study attains within a budget; rings: knees; dotted: budgets",
        "Bars and bands: 95 % interval, of two studies that share no rounds",
        f"Hypervolumes reach to time ×{bound.time_ratio:g} and peak ×{bound.peak_ratio:g} of the reference",
    ]
    told = [*comparison.notes, *explanations(shortenings(comparison))]
    sentences += [sentence[0].upper() + sentence[1:] for sentence in told]
    return " ".join(f"{sentence}." for sentence in sentences)
