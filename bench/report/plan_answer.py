"""What the `plan` verb says: a placement within a budget with what it is expected to take, or several of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from bench.frontier.types import MemoryReference
from bench.placement import parse_placement
from bench.records import PLAIN, Plan, Plans
from bench.records.plan import COUNTED, MEASURED, ROOFLINE
from bench.report.quantities import ABSENT, Unit, memory_unit, percent_text, share_text, time_unit
from bench.report.shares import saving_share

SOURCES = {
    MEASURED: "measured: each op of the plain step was timed on this device",
    ROOFLINE: "by roofline, from the target's data sheet: bounds that compare placements, and were never measured",
    COUNTED: "counted from FLOPs and bytes: they rank placements, and are no times",
}
MIB = 2**20


def plan_lines(row: Plan, plans: Plans) -> list[str]:
    """The placement's text alone on the first line, to be copied; then what it is expected to take."""
    return [row.placement, f"  peak       {_peak(row, plans)}", f"  step time  {_time(row, plans)}"]


def source_line(plans: Plans, *, is_corrected: bool = False) -> str:
    """How costs were got.

    Args:
        is_corrected: measured placements of a study corrected them.
    """
    corrected = ", and corrected by the placements that the study measured" if is_corrected else ""
    return f"costs: {SOURCES.get(plans.cost_source, plans.cost_source)}{corrected}"


def floor_line(plans: Plans) -> str:
    """The range of peaks that placements reach."""
    if plans.floor_bytes is None or plans.plain_bytes is None:
        return ""
    saved = share_text(saving_share(plans.floor_bytes, _reference(plans)))
    return (
        f"placements reach peaks from {plans.floor_bytes / MIB:,.1f} MiB ({saved} of what can move is freed) to "
        f"{plans.plain_bytes / MIB:,.1f} MiB (none)"
    )


def plans_table(rows: Sequence[Plan], plans: Plans) -> Table:
    """Plans numbered in order; their texts, which are too long for a table, go below it."""
    memory = memory_unit([*(row.peak_allocated_bytes for row in rows), plans.plain_bytes])
    cost = "cost over\nnone's" if plans.cost_source == COUNTED else "step time\nover none"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for header in ("", f"peak\n{memory.name}", "of\nnone", "\nsaved", cost, "at\nleast", "\nregions"):
        table.add_column(header, justify="right", no_wrap=True)
    for number, row in enumerate(rows, start=1):
        table.add_row(
            str(number),
            memory.text(row.peak_allocated_bytes),
            share_text(_of_plain(row, plans)),
            share_text(saving_share(row.peak_allocated_bytes, _reference(plans))),
            percent_text(_share_of_step(row.replay_ms, plans)),
            percent_text(_share_of_step(row.bound_ms, plans)),
            str(len(parse_placement(row.placement).regions)),
        )
    return table


def _peak(row: Plan, plans: Plans) -> str:
    peak = f"{row.peak_allocated_bytes / MIB:,.1f} MiB"
    if row.placement == PLAIN or plans.plain_bytes is None:
        return f"{peak}: the plain step stays within the budget"
    saved = share_text(saving_share(row.peak_allocated_bytes, _reference(plans)))
    return (
        f"{peak}: {share_text(_of_plain(row, plans))} of none's {plans.plain_bytes / MIB:,.1f} MiB; "
        f"{saved} of what can move is freed"
    )


def _time(row: Plan, plans: Plans) -> str:
    if row.placement == PLAIN:
        return "that of none"
    more = percent_text(_share_of_step(row.replay_ms, plans))
    least = percent_text(_share_of_step(row.bound_ms, plans))
    bound = "" if row.bound_ms is None else f"; no choice within the budget is expected below {least}"
    if plans.cost_source == COUNTED:
        return f"{more} in counted cost over none{bound}"
    unit = time_unit([plans.step_ms])
    return f"{more} over none's ({_ms(plans.step_ms, unit)} + {_ms(row.replay_ms, unit)}){bound}"


def _ms(time_ms: float | None, unit: Unit) -> str:
    return ABSENT if time_ms is None else f"{unit.text(time_ms)} {unit.name}"


def _share_of_step(time_ms: float | None, plans: Plans) -> float | None:
    return None if time_ms is None or not plans.step_ms else time_ms / plans.step_ms


def _of_plain(row: Plan, plans: Plans) -> float | None:
    return row.peak_allocated_bytes / plans.plain_bytes if plans.plain_bytes else None


def _reference(plans: Plans) -> MemoryReference | None:
    if plans.plain_bytes is None or plans.persistent_bytes is None:
        return None
    return MemoryReference(peak_allocated_bytes=plans.plain_bytes, persistent_bytes=plans.persistent_bytes)
