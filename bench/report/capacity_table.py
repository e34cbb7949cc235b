"""A capacity answer as tables for a terminal: how far each placement goes, what it trains there, and at multiples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from bench.capacity.reading import (
    ENDED_WORDS,
    beside_others,
    follows_accumulation,
    heading,
    on_frontier,
    rows_with_size,
    rows_without_size,
    size_words,
    times_text,
    unreached_hint,
)
from bench.capacity.types import SETTLED, Answer, Capacity
from bench.records import PLAIN
from bench.report.capacity_words import (
    explanations,
    limit_unit,
    margin_text,
    next_text,
    rate_text,
    relative_text,
    shortening,
    worded,
)
from bench.report.labels import Shortening
from bench.report.quantities import ABSENT
from bench.report.reasons import brief
from bench.report.table import FRONTIER_MARK, LABEL_WIDTH_MIN, Folded
from bench.stats.verdict import FASTER

NEXT_FROM = 100
"""Columns from which there is room for the next size and why it does not fit."""
PEAK_FROM = 88
"""Columns from which the peak stands beside what is left of the limit."""
AT_MULTIPLE_SHOWN = 5
"""Placements shown at one multiple; answer.csv has all."""
BEST_MARK = "★"
FINDING_MARK = "→"
OPEN_MARK = "\u2217"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The table of placements with a size, with the columns that its width has room for."""

    answer: Answer
    rows: Sequence[Capacity]
    way: Shortening

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _reached(self, shows_peak=options.max_width >= PEAK_FROM, shows_next=options.max_width >= NEXT_FROM)


def render_capacity(answer: Answer) -> RenderableType:
    """Placements by size, those without one and why, multiples of none's size, findings, notes; from 80 columns."""
    way = shortening(answer)
    spec, facts = answer.spec, answer.spec.controls.facts
    device = f" on {facts.device_name}" if facts is not None else ""
    parts: list[RenderableType] = [
        Text(f"{spec.name}{device}", style="bold"),
        Text(f"{heading(answer)}, and {answer.unit} a second there"),
    ]
    if not answer.is_complete:
        parts.append(Text("incomplete: the same command goes on from here", style="yellow"))
    reached, others = rows_with_size(answer), rows_without_size(answer)
    if reached:
        parts += [Text(), Reached(answer=answer, rows=reached, way=way), _dim(_legend(answer))]
    else:
        parts.append(Text("No placement was found to fit at any size."))
    if others:
        parts += [Text(), _without_size(answer, others, way)]
    if any(at.rows for at in answer.at_multiples):
        parts += [Text(), Text("at multiples of the largest size of none", style="bold"), _multiples(answer, way)]
    if answer.findings:
        parts += [Text(), *(Text(f"{FINDING_MARK} {worded(finding, answer, way)}") for finding in answer.findings)]
    said = (beside_others(answer), unreached_hint(answer), *explanations(answer, way))
    parts += [_dim(sentence) for sentence in said if sentence]
    parts += [Text(f"note: {worded(note, answer, way)}", style="yellow") for note in answer.notes]
    return Group(*parts)


def _reached(of: Reached, *, shows_peak: bool, shows_next: bool) -> Table:
    answer, unit = of.answer, limit_unit(of.answer)
    table = plain_table()
    table.add_column("", no_wrap=True)
    table.add_column("placement", min_width=LABEL_WIDTH_MIN)
    table.add_column("largest\nsize", justify="right", no_wrap=True)
    table.add_column("times\nnone's", justify="right", no_wrap=True)
    if follows_accumulation(answer):
        table.add_column("accu-\nmulated", justify="right", no_wrap=True)
    table.add_column(f"{answer.unit}\na second", justify="right", no_wrap=True)
    table.add_column("of none's\nthroughput", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if shows_peak:
        table.add_column(f"peak\n{unit.name}", justify="right", no_wrap=True)
    table.add_column(f"left\n{unit.name}", justify="right", no_wrap=True)
    if shows_next:
        table.add_column("next size\nand its peak", no_wrap=True)
    for row in of.rows:
        is_none, is_best = row.placement == PLAIN, on_frontier(answer, row)
        throughput = row.throughput
        verdict = "" if throughput is None or is_none else throughput.verdict
        table.add_row(
            FRONTIER_MARK if is_best else "",
            Folded(of.way.label(row.placement)),
            str(row.largest) + ("" if row.ended == SETTLED else OPEN_MARK),
            times_text(row.times_none),
            *([str(row.accumulation or ABSENT)] if follows_accumulation(answer) else []),
            rate_text(throughput),
            relative_text(throughput, is_none),
            Text(verdict, style="green" if verdict == FASTER else ""),
            *([unit.text(row.peak_allocated_bytes)] if shows_peak else []),
            margin_text(row, unit),
            *([next_text(row, unit)] if shows_next else []),
            style="bold" if is_best or is_none else "",
        )
    return table


def _legend(answer: Answer) -> str:
    parts = [
        f"{FRONTIER_MARK} on the frontier: nothing timed is both larger and has more throughput",
        "of none's throughput: paired with none at its own largest size in the same rounds, ± 95 %",
        f"left: from the peak up to the limit, {'headroom included' if answer.spec.headroom else 'which is exact'}",
    ]
    open_ends = {row.ended for row in answer.rows if row.largest is not None and row.ended != SETTLED}
    if open_ends:
        parts.append(
            f"{OPEN_MARK} may go further: {', '.join(ENDED_WORDS.get(word, word) for word in sorted(open_ends))}"
        )
    return "; ".join(parts)


def _without_size(answer: Answer, rows: Sequence[Capacity], way: Shortening) -> Table:
    table = plain_table()
    table.add_column("no size", min_width=LABEL_WIDTH_MIN, max_width=60)
    table.add_column("ended", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in rows:
        table.add_row(
            Folded(way.label(row.placement)),
            ENDED_WORDS.get(row.ended, row.ended),
            brief(worded(row.reason, answer, way)),
        )
    return table


def _multiples(answer: Answer, way: Shortening) -> Table:
    table = plain_table()
    for header in ("times", "size"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("placement", min_width=LABEL_WIDTH_MIN)
    table.add_column(f"{answer.unit}\na second", justify="right", no_wrap=True)
    table.add_column("of none's\nthroughput", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for at in answer.at_multiples:
        shown = at.rows[:AT_MULTIPLE_SHOWN]
        for index, row in enumerate(shown):
            is_best = row.placement == at.best
            table.add_row(
                times_text(float(at.multiple)) if index == 0 else "",
                size_words(answer.spec.axis, row.size) if index == 0 else "",
                BEST_MARK if is_best else "",
                Folded(way.label(row.placement)),
                rate_text(row.throughput),
                relative_text(row.throughput),
                row.throughput.verdict,
                style="bold" if is_best else "",
                end_section=index + 1 == len(shown),
            )
        more = len(at.rows) - len(shown)
        if more:
            table.add_row("", "", "", f"and {more} more in answer.csv", "", "", "", style="dim", end_section=True)
    return table


def plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)


def _dim(sentence: str) -> Text:
    return Text(sentence, style="dim")
