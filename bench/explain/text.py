"""An explanation for a terminal: rich renderables that fit from 80 columns; tables are bounded, the data holds all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.explain.compare import Comparison, Difference
from bench.explain.findings import Advice
from bench.explain.modules import ModuleRow
from bench.explain.peak import Moment, PeakExplanation, UnitAtPeak
from bench.explain.replay_cost import ReplayCost, Work
from bench.explain.residuals import Keeps, Residual, Residuals
from bench.explain.tensors import BEFORE_THE_STEP, TensorGroup
from bench.explain.words import (
    bytes_text,
    count_text,
    fold_modules,
    gflop_text,
    in_module,
    join_text,
    module_pattern,
    share_text,
    tensor_text,
)
from bench.trace.categories import CategoryBytes

ROWS = 12
"""Of a table of tensors or units."""
SMALL_SHARE = 0.02
"""Of the peak: modules that hold less are left out of the table."""


def render_explanation(explanation: PeakExplanation, advice: Sequence[Advice]) -> RenderableType:
    """Moment, advice, categories, units, modules and the largest tensors."""
    e = explanation
    parts: list[RenderableType] = [
        Text(f"{e.model} under {e.placement} on {e.device}", style="bold"),
        Text(
            f"peak {bytes_text(e.peak_bytes)}: {bytes_text(e.persistent_bytes)} from before the step, "
            f"{bytes_text(e.movable_bytes)} that come and go"
        ),
        Text(f"reached {_moment_text(e.moment)}"),
        Text(),
        *(Text(f"• {one.text}", style="bold" if n == 0 else "yellow") for n, one in enumerate(advice)),
        Text(),
        _categories_table(e.categories, e.peak_bytes),
    ]
    if e.units:
        parts += [Text(), _units_table(e.units)]
    parts += [
        Text(),
        _modules_table([row for row in e.modules if row.bytes >= SMALL_SHARE * e.peak_bytes], e.peak_bytes),
        Text(),
        Text("made by the step, alive at the peak:"),
        _tensors_table([one for one in e.groups if one.since != BEFORE_THE_STEP]),
    ]
    return Group(*parts)


def render_comparison(comparison: Comparison) -> RenderableType:
    c = comparison
    parts: list[RenderableType] = [
        Text(f"{c.model}: {c.first} → {c.second}", style="bold"),
        Text(f"peak {bytes_text(c.first_peak_bytes)}, reached {_moment_text(c.first_moment)}"),
        Text(f"   → {bytes_text(c.second_peak_bytes)}, reached {_moment_text(c.second_moment)}"),
        Text(c.text),
    ]
    sides = (
        (c.gone, "gone from the peak"),
        (c.let_go_elsewhere, "let go for nothing"),
        (c.new, "at the peak instead"),
    )
    for side, title in sides:
        if side.tensors:
            parts += [Text(), Text(f"{title}: {_amount(side)}"), _tensors_table(side.groups)]
    return Group(*parts)


def render_residuals(residuals: Residuals) -> RenderableType:
    """One table an owner, what is there anyway (parameters, batches) as a number only."""
    parts: list[RenderableType] = []
    for keeps in residuals.keeps:
        parts += [Text(_residuals_title(keeps), style="bold"), _residuals_table(keeps), Text()]
    parts.append(Text(f"in all {bytes_text(residuals.total_bytes)}, what is shared counted once"))
    return Group(*parts)


def render_replay_cost(cost: ReplayCost) -> RenderableType:
    table = _table("region", "calls", "replays", "GFLOP", "moved", "ops", "random states")
    for region in cost.regions:
        table.add_row(
            region.region,
            str(region.first_passes),
            str(region.replays),
            *_work_cells(region.replayed),
            f"{region.rng_saves} ({bytes_text(region.rng_bytes)})",
        )
    share = cost.flops_share
    parts: list[RenderableType] = [table] if cost.regions else []
    replayed = f"replayed in all: {_work_text(cost.replayed)}"
    parts.append(Text(replayed if share is None else f"{replayed}; {100 * share:.1f} % of the plain step's FLOPs"))
    if cost.measured is not None:
        m = cost.measured
        text = f"measured: {m.placed_ms:.1f} ms instead of {m.plain_ms:.1f} ms, {m.extra_ms:+.1f} ms"
        if m.at_plain_rate_ms is not None:
            text += (
                f"; at the plain step's rate the replayed FLOPs would take {m.at_plain_rate_ms:.1f} ms (an estimate), "
                f"so {m.remainder_ms:+.1f} ms are memory-bound ops, launches, "
                f"{count_text(cost.region_calls, 'pass', 'passes')} through regions, and noise"
            )
        parts.append(Text(text))
    return Group(*parts)


def _moment_text(moment: Moment) -> str:
    if moment.op is None:
        return "before the first op"
    op = moment.op
    what = f"{op.op} {in_module(op.module)}" + (f" (of {op.backward_of})" if op.backward_of else "")
    when = f"in the replay of {op.region}" if op.is_replay else f"in {moment.phase or 'the beginning'}"
    batch = f" of micro-batch {moment.micro_batch}" if moment.micro_batch else ""
    source = f", {_line(op.source)}" if op.source else ""
    return f"{when}{batch}, {'at' if moment.is_running else 'after'} {what}{source}"


def _categories_table(categories: Iterable[CategoryBytes], peak_bytes: int) -> Table:
    table = _table("category", "bytes", "of peak", "tensors")
    for one in categories:
        if one.num_tensors:
            table.add_row(one.category, bytes_text(one.bytes), share_text(one.bytes, peak_bytes), str(one.num_tensors))
    return table


def _units_table(units_at_peak: Sequence[UnitAtPeak]) -> Table:
    """Units that hold the same are one row."""
    table = _table("unit", "at the peak", "removable", "kept in all")
    alike: dict[tuple[object, ...], list[UnitAtPeak]] = {}
    for one in units_at_peak:
        key = (module_pattern(one.unit), one.at_peak_bytes, one.removable_bytes, one.saved_bytes)
        alike.setdefault(key, []).append(one)
    rows = list(alike.values())
    shown = rows if len(rows) <= ROWS else [*rows[: ROWS - 2], list(chain(*rows[ROWS - 2 : -1])), rows[-1]]
    for units in shown:
        patterns = {module_pattern(one.unit) for one in units}
        times = f" (×{len(units)})" if len(units) > 1 else ""
        name = fold_modules([one.unit for one in units]) + times if len(patterns) == 1 else f"{len(units)} other units"
        table.add_row(
            name,
            bytes_text(sum(one.at_peak_bytes for one in units)),
            bytes_text(sum(one.removable_bytes for one in units)),
            bytes_text(sum(one.saved_bytes for one in units)),
        )
    return table


def _modules_table(rows: Sequence[ModuleRow], peak_bytes: int) -> Table:
    table = _table("module", "bytes", "of peak", left=("mostly",))
    for row in rows:
        most = max(row.categories, key=lambda one: one.bytes)
        label = "  " * row.depth + (row.module.rpartition(".")[2] if ".." not in row.module else _last(row.module))
        times = f" (×{row.num_modules})" if row.num_modules > 1 else ""
        table.add_row(
            (label or "outside every module") + times,
            bytes_text(row.bytes),
            share_text(row.bytes, peak_bytes),
            f"{most.category} {share_text(most.bytes, row.bytes)}",
        )
    return table


def _last(module: str) -> str:
    """The last name of `h.0..11.mlp` or `h.0..11`, whose ranges hold full stops themselves."""
    return module.replace("..", "\0").rpartition(".")[2].replace("\0", "..")


def _tensors_table(groups: Sequence[TensorGroup]) -> Table:
    table = _table("tensor", "bytes", left=("made by", "kept by"))
    for one in groups[:ROWS]:
        kind = f"{one.category} ({one.kind})" if one.kind else one.category
        times = f"{one.num_tensors} × " if one.num_tensors > 1 else ""
        label = f"{times}{tensor_text(one.shape, one.dtype)}\n{kind}" if one.dtype else f"{times}{kind}"
        made = f"{one.op} {in_module(one.module)}" if one.op else one.module or one.since
        table.add_row(label, bytes_text(one.bytes), f"{made}\n{_line(one.source)}".strip(), one.holder)
    rest = groups[ROWS:]
    if rest:
        number = sum(one.num_tensors for one in rest)
        table.add_row(count_text(number, "smaller tensor"), bytes_text(sum(one.bytes for one in rest)), "", "")
    return table


def _line(source: str) -> str:
    """`modeling_gpt2.py:251`: file and line, without folder and function."""
    return source.partition(" ")[0].rpartition("/")[2]


def _residuals_title(keeps: Keeps) -> str:
    batch = f", micro-batch {keeps.micro_batch}" if keeps.micro_batch else ""
    call = f", call {keeps.call}" if keeps.call else ""
    shared = f", {bytes_text(keeps.shared_bytes)} of it with others" if keeps.shared_bytes else ""
    return f"{keeps.owner}{call}{batch}: {bytes_text(keeps.total_bytes)}{shared}"


def _residuals_table(keeps: Keeps) -> Table:
    table = _table("tensor", "bytes", left=("made by", "read by"))
    for one in keeps.residuals:
        if not one.is_there_anyway:
            table.add_row(_residual_label(one), bytes_text(one.bytes), _made_by(one), _read_by(one))
    anyway = [one for one in keeps.residuals if one.is_there_anyway]
    if anyway:
        table.add_row(count_text(len(anyway), "parameter or input", "parameters or inputs"), "there anyway", "", "")
    return table


def _residual_label(one: Residual) -> str:
    shared = f"\nshared with {join_text(one.shared_with)}" if one.shared_with else ""
    return f"{tensor_text(one.shape, one.dtype)}\n{one.role}{shared}" if one.dtype else f"{one.role}{shared}"


def _made_by(one: Residual) -> str:
    if one.made_by is None:
        return "no op"
    return f"{one.made_by.op} {in_module(one.made_by.module)}\n{_line(one.made_by.source)}".strip()


def _read_by(one: Residual) -> str:
    places = dict.fromkeys(f"{'replayed ' if op.is_replay else ''}{op.op} {in_module(op.module)}" for op in one.read_by)
    return join_text(list(places), most=2) or "no op"


def _amount(side: Difference) -> str:
    return f"{bytes_text(side.bytes)} in {count_text(len(side.tensors), 'tensor')}"


def _work_cells(work: Work) -> tuple[str, str, str]:
    return gflop_text(work.flops), bytes_text(work.moved_bytes), str(work.num_ops)


def _work_text(work: Work) -> str:
    flops, moved, ops = _work_cells(work)
    return f"{flops} GFLOP, {moved} moved, {ops} ops"


def _table(first: str, *right: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    for header in right:
        table.add_column(header, justify="right", no_wrap=True)
    for header in left:
        table.add_column(header, overflow="fold")
    return table
