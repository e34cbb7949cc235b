"""A comparison as tables for a terminal: the studies, step time at memory budgets, and what differs."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.compare.types import ABSOLUTE, RELATIVE, SCALES, Comparison, Contest
from bench.frontier.types import relative_width
from bench.report.compare_words import (
    budget_text,
    commit_sentence,
    comparison_memory_unit,
    difference_sentence,
    explanations,
    knee_words,
    scale_heading,
    scale_sentence,
    shortenings,
)
from bench.report.labels import Shortening
from bench.report.quantities import ABSENT, Unit, memory_unit, ratio_text, time_text, time_unit
from bench.report.table import LABEL_WIDTH_MIN, Folded

VERDICT_STYLES = {"faster": "green", "slower": "red", "only baseline fits": "red", "only candidate fits": "green"}


def render_comparison(comparison: Comparison) -> RenderableType:
    """Studies, what differs, budgets on both scales, indicators, knees, notes; fits terminals from 80 columns."""
    baseline, memory, ways = comparison.studies[0], comparison_memory_unit(comparison), shortenings(comparison)
    parts: list[RenderableType] = [Text(comparison.name, style="bold"), _studies(comparison)]
    for pairing in comparison.pairings:
        told = [difference_sentence(pairing, baseline), commit_sentence(pairing, comparison)]
        parts.append(Text("; ".join(sentence for sentence in told if sentence)))
    for scale in SCALES:
        parts += [
            Text(),
            Text(scale_heading(scale, comparison), style="bold"),
            _budgets(comparison, scale, memory, ways),
        ]
        parts += [Text(scale_sentence(pairing, baseline, scale, memory)) for pairing in comparison.pairings]
    parts.append(Text())
    parts += [Text(f"knee of {e.label}: {knee_words(e.knee, ways[e.label])}") for e in comparison.studies]
    parts += [Text(sentence, style="dim") for sentence in (_legend(comparison), *explanations(ways))]
    parts += [Text(f"note: {note}", style="yellow") for note in comparison.notes]
    return Group(*parts)


def _studies(comparison: Comparison) -> Table:
    memory = memory_unit(entrant.plain_peak_bytes for entrant in comparison.studies)
    table = _plain_table()
    table.add_column("", no_wrap=True)
    table.add_column("study", overflow="fold")
    table.add_column("model", overflow="fold")
    table.add_column("device", overflow="fold")
    for header in ("rounds", "frontier", f"none\n{memory.name}", "hyper-\nvolume"):
        table.add_column(header, justify="right", no_wrap=True)
    for index, entrant in enumerate(comparison.studies):
        area = entrant.relative.hypervolume
        rounds = str(entrant.rounds) + (f" in {entrant.executions}" if entrant.executions > 1 else "")
        table.add_row(
            entrant.label,
            entrant.study + (" (baseline)" if index == 0 else ""),
            entrant.model,
            entrant.device,
            rounds,
            f"{sum(point.on_frontier for point in entrant.relative.points)} of {len(entrant.relative.points)}",
            memory.text(entrant.plain_peak_bytes) + ("\u2217" if entrant.plain_is_forecast else ""),
            ABSENT if area is None else f"{area:.3f}",
        )
    return table


def _budgets(comparison: Comparison, scale: str, memory: Unit, ways: dict[str, Shortening]) -> Table:
    baseline = comparison.studies[0].label
    times = [
        time
        for pairing in comparison.pairings
        for row in pairing.against(scale).budgets
        for time in (row.contest.baseline_time, row.contest.candidate_time)
    ]
    time = time_unit(times)
    table = _plain_table()
    table.add_column("budget", no_wrap=True)
    table.add_column(f"fastest of {baseline}", min_width=LABEL_WIDTH_MIN)
    table.add_column("time" if scale == RELATIVE else time.name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("fastest of it", min_width=LABEL_WIDTH_MIN)
    table.add_column("time" if scale == RELATIVE else time.name, justify="right", no_wrap=True)
    table.add_column(f"over {baseline}", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    last = comparison.pairings[-1].label
    for pairing in comparison.pairings:
        rows = pairing.against(scale).budgets
        for index, row in enumerate(rows):
            contest = row.contest
            table.add_row(
                budget_text(row, scale, memory),
                _placement(contest.baseline, ways[baseline]),
                _time(contest.baseline_time, contest, scale, time),
                pairing.label,
                _placement(contest.candidate, ways[pairing.label]),
                _time(contest.candidate_time, contest, scale, time),
                ratio_text(contest.ratio, contest.interval, is_reference=_is_exact(contest)),
                Text(contest.verdict, style=VERDICT_STYLES.get(contest.verdict, "")),
                end_section=index + 1 == len(rows) and pairing.label != last,
            )
    return table


def _placement(placement: str | None, way: Shortening) -> Folded:
    return Folded(ABSENT if placement is None else way.label(placement))


def _time(time: float | None, contest: Contest, scale: str, unit: Unit) -> str:
    """With the digits that the interval of the ratio supports."""
    share = relative_width(contest.ratio, contest.interval) or None
    if scale == ABSOLUTE or time is None:
        return time_text(time, unit, share)
    return f"×{time:.{2 if share is None or share > 0.002 else 3}f}"


def _is_exact(contest: Contest) -> bool:
    """Both are the reference that their times are relative to."""
    interval = contest.interval
    return interval is not None and contest.ratio == interval.low == interval.high == 1.0


def _legend(comparison: Comparison) -> str:
    bound = comparison.reference_point
    parts = [
        f"hypervolume: area that a frontier dominates up to time ×{bound.time_ratio:g} and peak ×{bound.peak_ratio:g}",
        "±: 95 %, of two studies that share no rounds",
        "ε of B over A: factor that B's points would have to shrink by to cover A's; at most 1 where they do",
    ]
    if any(entrant.plain_is_forecast for entrant in comparison.studies):
        parts.append("\u2217 a forecast: none does not fit")
    return "; ".join(parts)


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
