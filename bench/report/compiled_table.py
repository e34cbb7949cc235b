"""Steps compiled under memory budgets as a table for a terminal, below the study's own."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.frontier.types import relative_width
from bench.records.compiled import WHOLE, Compiled
from bench.report.compiled_data import CompiledPoint, compiled_points, plain_program
from bench.report.quantities import (
    ABSENT,
    error_text,
    memory_unit,
    ratio_text,
    share_text,
    time_text,
    time_unit,
)
from bench.report.reasons import brief
from bench.report.table import AUDIT_WORDS, FRONTIER_MARK

LEGEND = (
    f"{FRONTIER_MARK} on its solver's frontier; budget: share of the activations saved at 1 that torch is asked to "
    "keep; est. saved: what it says that it keeps; implied: the peak at 1 less what it says is kept no longer; its "
    "error: (implied − peak) / (peak − persistent)"
)


def render_compiled(compiled: Compiled, target_half_width: float) -> RenderableType | None:
    """The table and what must be known of it; None where nothing was compiled or asked for.

    Args:
        target_half_width: of the study, for the verdicts.
    """
    notes = [Text(f"note: {note}", style="yellow") for note in (*compiled.notes, *filter(None, [compiled.problem]))]
    if not compiled.choices:
        return Group(*notes) if notes else None
    points = compiled_points(compiled, target_half_width)
    parts: list[RenderableType] = [
        Text("beside it: torch.compile's activation_memory_budget", style="bold"),
        _table(compiled, points),
        *(Text(sentence) for sentence in (_reference(compiled), _accuracy(points)) if sentence),
        *(Text(sentence, style="red") for sentence in _faults(points)),
        Text(LEGEND, style="dim"),
        *notes,
    ]
    return Group(*parts)


def merged(points: Sequence[CompiledPoint]) -> list[tuple[str, CompiledPoint, bool]]:
    """(solvers, point, whether on the frontier of any of them), by budget from 1 down: solvers that came to the same
    program at a budget share a row."""
    rows = []
    for budget in sorted({point.budget for point in points}, reverse=True):
        at = [point for point in points if point.budget == budget]
        for _, group in itertools.groupby(sorted(at, key=_program), key=_program):
            same = list(group)
            rows.append((", ".join(p.solver for p in same), same[0], any(p.on_frontier for p in same)))
    return rows


def _program(point: CompiledPoint) -> str:
    """What tells rows of a budget apart: where there is no program, the solver."""
    return point.program or f" {point.solver}"


def _table(compiled: Compiled, points: Sequence[CompiledPoint]) -> Table:
    plain = plain_program(compiled)
    memory = memory_unit(
        [*(p.peak_allocated_bytes for p in points), plain.peak_allocated_bytes if plain is not None else None]
    )
    time = time_unit(point.step_time_ms for point in points)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("solver")
    for header in (
        *(f"step\n{time.name}", "time\nratio", "verdict"),
        *(f"peak\n{memory.name}", "est.\nsaved", f"implied\n{memory.name}", "its\nerror"),
        *("again\nops", "valid", "compile\ns"),
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for solvers, point, on_frontier in merged(points):
        table.add_row(
            FRONTIER_MARK if on_frontier else "",
            f"{point.budget:g}",
            solvers,
            time_text(point.step_time_ms, time, relative_width(point.time_ratio, point.time_ratio_interval)),
            ratio_text(point.time_ratio, point.time_ratio_interval),
            point.verdict or ABSENT,
            memory.text(point.peak_allocated_bytes),
            memory.text(point.estimated_saved_bytes),
            memory.text(point.implied_peak_bytes),
            ABSENT if point.budget == WHOLE else error_text(point.implied_error_share),
            ABSENT if point.recomputed_ops is None else str(point.recomputed_ops),
            _validity(point),
            ABSENT if point.compile_s is None else f"{point.compile_s:.0f}",
            style="bold" if on_frontier else "",
        )
    return table


def _validity(point: CompiledPoint) -> Text:
    if point.outcome != "ok":
        return Text(point.outcome, style="red")
    return Text(AUDIT_WORDS.get(point.audit or "", ABSENT))


def _reference(compiled: Compiled) -> str:
    """What the numbers are relative to, which is not what the study's are."""
    plain = plain_program(compiled)
    if plain is None or plain.peak_allocated_bytes is None:
        return ""
    memory = memory_unit([plain.peak_allocated_bytes])
    return (
        f"backend {compiled.backend}; times are relative to the plain step, not compiled, in rounds of their own; its "
        f"peak is {memory.text(plain.peak_allocated_bytes)} {memory.name}"
    )


def _faults(points: Sequence[CompiledPoint]) -> list[str]:
    """Why rows are not scored, each reason once with all that it holds for."""
    faults: dict[str, list[CompiledPoint]] = {}
    for point in points:
        if point.outcome != "ok":
            told = f"{point.outcome}: {brief(point.reason)}" if point.reason else point.outcome
            faults.setdefault(told, []).append(point)
    return [
        f"{', '.join(dict.fromkeys(point.solver for point in of_fault))} at "
        f"{', '.join(dict.fromkeys(f'{point.budget:g}' for point in of_fault))}: {told}"
        for told, of_fault in faults.items()
    ]


def _accuracy(points: Sequence[CompiledPoint]) -> str:
    below = {point.program: point for point in points if point.budget < WHOLE}.values()
    errors = [abs(point.implied_error_share) for point in below if point.implied_error_share is not None]
    if not errors:
        return ""
    return (
        f"torch's estimate against the measured peak, programs below budget 1 ({len(errors)}): median error "
        f"{share_text(statistics.median(errors))}, largest {share_text(max(errors))}"
    )
