"""A study's table for print: the columns that matter, as wide as a column or the page, set by `booktabs`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bench.frontier.types import Frontier, Trial, relative_width
from bench.report.labels import Shortening, common_prefix
from bench.report.names import long_names
from bench.report.publication_latex import FLOATS, latex, latex_code
from bench.report.quantities import (
    ABSENT,
    Unit,
    memory_unit,
    ratio_text,
    supported_decimals,
    time_text,
    time_unit,
)
from bench.report.shares import memory_reference, saving_share

ROWS_SHOWN = 24
"""About what stands on a page beside text; a longer list is for evidence.csv."""
REFERENCE = "reference"
SIZES = {1: "scriptsize", 2: "footnotesize"}
"""Columns → size of letters: 7 and 8 points in a paper of 10."""


@dataclass(frozen=True, kw_only=True)
class PublicationTable:
    columns: tuple[str, ...]
    layout: str
    """A letter for each column, as LaTeX's `tabularx` takes it."""
    frontier_rows: tuple[tuple[str, ...], ...]
    """(placements, columns); the second cell is the placement's text."""
    other_rows: tuple[tuple[str, ...], ...]
    """Of dominated placements, where there is room for all of them; else of the reference alone, if it is one."""
    left_out: str
    """What the table does not show, in words; empty where it shows everything that was measured and is valid."""
    prefix: str
    """Taken off the placements."""
    memory: str
    """Unit of peaks."""


def publication_table(frontier: Frontier, named: Collection[str], columns: int) -> PublicationTable:
    """
    Args:
        named: frontier placements that the figures name; a longer frontier is cut to them.
        columns: 1 leaves out the step time, whose place is needed; its ratio stays.
    """
    trials = {trial.placement: trial for trial in frontier.trials}
    on_frontier = frontier.frontier
    shown = list(on_frontier) if len(on_frontier) <= ROWS_SHOWN else [text for text in on_frontier if text in named]
    dominated = [trial for trial in frontier.trials if trial.outcome == "ok" and trial.placement not in on_frontier]
    dominated.sort(key=lambda trial: -(trial.peak_allocated_bytes or 0))
    has_room = len(shown) + len(dominated) <= ROWS_SHOWN
    others = [trial for trial in dominated if has_room or trial.placement == frontier.reference]
    numbers = {placement: str(number) for number, placement in enumerate(on_frontier, start=1)}
    row = _Row(frontier, columns)
    return PublicationTable(
        columns=row.titles,
        layout=row.layout,
        frontier_rows=tuple(row.cells(numbers[placement], trials[placement]) for placement in shown),
        other_rows=tuple(row.cells("", trial) for trial in others),
        left_out=_left_out(len(on_frontier) - len(shown), len(dominated) - len(others), len(others)),
        prefix=row.shortening.prefix,
        memory=row.memory.name,
    )


def as_latex_table(table: PublicationTable, caption: str, columns: int) -> str:
    """A float that needs no scaling: the placements' column takes what the others leave, and breaks its lines."""
    _, environment = FLOATS[columns]
    titles = " & ".join(map(latex, table.columns)) + r" \\"
    parts = [r"\toprule", titles, r"\midrule", *map(_latex_row, table.frontier_rows)]
    if table.other_rows:
        parts += [r"\midrule", *map(_latex_row, table.other_rows)]
    body = "\n".join([*parts, r"\bottomrule"])
    return (
        "% Needs \\usepackage{booktabs,tabularx} and \\usepackage[T1]{fontenc}.\n"
        f"\\begin{{{environment}}}\n\\centering\n\\caption{{{latex(caption)}}}\n"
        f"\\{SIZES[columns]}\n\\setlength{{\\tabcolsep}}{{3pt}}\n"
        f"\\begin{{tabularx}}{{\\linewidth}}{{@{{}}{table.layout}@{{}}}}\n{body}\n\\end{{tabularx}}\n"
        f"\\end{{{environment}}}\n"
    )


class _Row:
    """The cells of one placement; units and names are chosen once for the table."""

    def __init__(self, frontier: Frontier, columns: int) -> None:
        self.frontier, self.has_times = frontier, columns > 1
        self.memory: Unit = memory_unit(trial.peak_allocated_bytes for trial in frontier.trials)
        self.time: Unit = time_unit(trial.step_time_ms for trial in frontier.trials)
        prefix = common_prefix(trial.placement for trial in frontier.trials)
        self.shortening = Shortening(prefix=prefix, names=long_names(frontier.trials))
        self.weighed_against = memory_reference(frontier)
        times = [f"Step time ({self.time.name})"] if self.has_times else []
        # In one column every letter of a title is taken off the placements' names.
        sizes = (f"Peak ({self.memory.name})", "Saved (%)") if self.has_times else (self.memory.name, "Saved")
        self.titles = ("", "Placement", *times, "Time ratio", *sizes, "Verdict")
        self.layout = r"r>{\raggedright\arraybackslash}X" + "l" * len(times) + "lrrl"

    def cells(self, number: str, trial: Trial) -> tuple[str, ...]:
        is_reference = trial.placement == self.frontier.reference
        saved = saving_share(trial.peak_allocated_bytes, self.weighed_against)
        return (
            number,
            self.shortening.label(trial.placement),
            *([self._time(trial)] if self.has_times else []),
            ratio_text(trial.time_ratio, trial.time_ratio_interval, is_reference),
            self.memory.text(trial.peak_allocated_bytes),
            ABSENT if saved is None else f"{100 * saved:.1f}" + ("" if self.has_times else "%"),
            REFERENCE if is_reference else trial.verdict or ABSENT,
        )

    def _time(self, trial: Trial) -> str:
        """`3.46 ± 0.06`: the reference's time by the paired ratio and its interval, as the plots have it."""
        ms = self.frontier.paired_step_time_ms(trial)
        relative = relative_width(trial.time_ratio, trial.time_ratio_interval)
        if ms is None or not relative:
            return time_text(ms, self.time, None)
        width = self.time.of(ms) * relative
        decimals = min(supported_decimals(width), self.time.decimals)
        return f"{self.time.of(ms):.{decimals}f} ± {width:.{decimals}f}"


def _latex_row(cells: tuple[str, ...]) -> str:
    number, placement, *values = cells
    return " & ".join([latex(number), latex_code(placement), *map(latex, values)]) + r" \\"


def _left_out(num_frontier: int, num_hidden: int, num_below: int) -> str:
    parts = [f"{num_frontier} more on it" if num_frontier else "", f"{num_hidden} dominated" if num_hidden else ""]
    told = " and ".join(part for part in parts if part)
    below = ["below the line: dominated"] if num_below else []
    return "; ".join([f"not shown: {told}"] * bool(told) + below).capitalize()
