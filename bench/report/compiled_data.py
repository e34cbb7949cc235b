"""What was measured of compiled steps, worked out: one point a solver and budget, and each solver's frontier. Pure."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bench.frontier.dominance import nondominated
from bench.frontier.types import Interval
from bench.records import replace_text
from bench.records.compiled import EAGER, WHOLE, Choice, Compiled, Program
from bench.stats import estimate_ratio, judge

CSV_FILE = "compiled.csv"


@dataclass(frozen=True, kw_only=True)
class CompiledPoint:
    """A solver at a budget. What was not measured is None."""

    solver: str
    budget: float
    program: str | None
    """Points of one program share its measurements."""
    outcome: str
    reason: str
    on_frontier: bool = False
    """Of its solver: no other valid point of it is both faster and smaller."""
    rounds: int = 0
    """Paired rounds that the ratio rests on."""
    step_time_ms: float | None = None
    time_ratio: float | None = None
    """To the plain step, not compiled, in the same rounds."""
    time_ratio_interval: Interval | None = None
    """At 95 %."""
    verdict: str | None = None
    peak_allocated_bytes: int | None = None
    persistent_bytes: int | None = None
    retained_bytes: int | None = None
    estimated_saved_bytes: int | None = None
    """As torch sizes what the forward hands to the backward."""
    implied_peak_bytes: int | None = None
    """Peak at budget 1, less what torch takes to be saved no longer: what its estimate says of the peak."""
    implied_error_share: float | None = None
    """(implied peak − measured peak) / (measured peak − persistent)."""
    graphs: int = 0
    recomputed_ops: int | None = None
    compile_s: float | None = None
    audit: str | None = None


def plain_program(compiled: Compiled) -> Program | None:
    """The plain step as it was measured beside the compiled ones."""
    return next((program for program in compiled.programs if program.name == EAGER), None)


def compiled_points(compiled: Compiled, target_half_width: float) -> tuple[CompiledPoint, ...]:
    """One a choice, in the order in which they were made.

    Args:
        target_half_width: of the study, for the verdicts.
    """
    programs = {program.name: program for program in compiled.programs}
    times = _times(compiled)
    points = [_point(choice, programs, times, target_half_width) for choice in compiled.choices]
    whole = next((p for p in points if p.budget == WHOLE and p.peak_allocated_bytes is not None), None)
    points = [_implied(point, whole) for point in points]
    kept = {id(point) for solver in dict.fromkeys(p.solver for p in points) for point in _frontier(points, solver)}
    return tuple(replace(point, on_frontier=id(point) in kept) for point in points)


def compiled_csv(points: Sequence[CompiledPoint]) -> str:
    """One row a point, one cell a field, the interval in two; what was not measured is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=_columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_row, points))
    return text.getvalue()


def write_compiled_csv(directory: Path, points: Sequence[CompiledPoint]) -> Path:
    """Raises CannotWriteError."""
    path = directory / CSV_FILE
    replace_text(path, compiled_csv(points))
    return path


Times = Mapping[str, Mapping[int, float]]
"""Program → round → median step time in ms."""


def _times(compiled: Compiled) -> Times:
    times: dict[str, dict[int, float]] = {}
    for sample in compiled.samples:
        times.setdefault(sample.program, {})[sample.round] = sample.time_ms
    return times


def _point(choice: Choice, programs: Mapping[str, Program], times: Times, target_half_width: float) -> CompiledPoint:
    program = programs.get(choice.program or "")
    outcome, reason = (choice.outcome, choice.reason) if program is None else program.standing
    point = CompiledPoint(
        solver=choice.solver,
        budget=choice.budget,
        program=choice.program,
        outcome=outcome,
        reason=reason,
        estimated_saved_bytes=choice.estimated_saved_bytes,
        graphs=choice.graphs,
        recomputed_ops=choice.recomputed_ops,
    )
    if program is None:
        return point
    point = replace(
        point,
        peak_allocated_bytes=program.peak_allocated_bytes,
        persistent_bytes=program.persistent_bytes,
        retained_bytes=program.retained_bytes,
        compile_s=program.compile_s,
        audit=program.audit,
    )
    plain, of_program = times.get(EAGER, {}), times.get(program.name, {})
    logs = [math.log(of_program[number] / plain[number]) for number in sorted(of_program.keys() & plain.keys())]
    if not logs:
        return point
    estimate = estimate_ratio([logs])
    interval = estimate.interval
    return replace(
        point,
        rounds=estimate.pairs,
        step_time_ms=statistics.median(of_program.values()),
        time_ratio=estimate.ratio,
        time_ratio_interval=None if interval is None else Interval(low=interval[0], high=interval[1]),
        verdict=judge(estimate, target_half_width).word,
    )


def _implied(point: CompiledPoint, whole: CompiledPoint | None) -> CompiledPoint:
    if whole is None or whole.peak_allocated_bytes is None:
        return point
    if point.estimated_saved_bytes is None or whole.estimated_saved_bytes is None:
        return point
    implied = whole.peak_allocated_bytes - (whole.estimated_saved_bytes - point.estimated_saved_bytes)
    error = None
    if point.peak_allocated_bytes is not None and point.persistent_bytes is not None:
        movable = point.peak_allocated_bytes - point.persistent_bytes
        error = (implied - point.peak_allocated_bytes) / movable if movable > 0 else None
    return replace(point, implied_peak_bytes=implied, implied_error_share=error)


def _frontier(points: Sequence[CompiledPoint], solver: str) -> list[CompiledPoint]:
    scored = [
        (point, (point.time_ratio, float(point.peak_allocated_bytes)))
        for point in points
        if point.solver == solver
        and point.outcome == "ok"
        and point.time_ratio is not None
        and point.peak_allocated_bytes is not None
    ]
    kept = nondominated([place for _, place in scored])
    return [point for (point, _), is_kept in zip(scored, kept, strict=True) if is_kept]


def _columns() -> list[str]:
    return list(_row(CompiledPoint(solver="", budget=0.0, program=None, outcome="", reason="")))


def _row(point: CompiledPoint) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields(point):
        value = getattr(point, field.name)
        if field.name == "time_ratio_interval":
            row |= {"time_ratio_low": value and value.low, "time_ratio_high": value and value.high}
        else:
            row[field.name] = str(value).lower() if isinstance(value, bool) else value
    return row
