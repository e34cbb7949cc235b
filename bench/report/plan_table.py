"""The planned placements of a study as a table for a terminal: what was measured beside what was expected."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.frontier.types import Frontier, Trial
from bench.records import Plan, Plans
from bench.records.plan import COUNTED
from bench.report.labels import shorten
from bench.report.names import long_names
from bench.report.quantities import error_text, memory_unit, percent_text, share_text, time_unit
from bench.report.table import LABEL_WIDTH_MIN, Folded

LEGEND = (
    "peak error: (expected − measured) / (measured − persistent); replay: by how much the step takes longer than that "
    "of none, measured by pairs of one round, and expected at the speed of none's step here; its error: (expected − "
    "measured) / measured"
)


def render_expected(frontier: Frontier, plans: Plans) -> RenderableType | None:
    """Each planned placement that the study has, by peak from the highest, and how far off the plans were; None where
    there is none. Peers' placements have a table of their own, with who planned them."""
    rows = {row.placement: row for row in reversed(plans.rows) if row.peer is None and row.placement != "none"}
    trials = [trial for trial in frontier.trials if trial.placement in rows and trial.expected_peak_bytes is not None]
    if not trials:
        return None
    trials.sort(key=lambda trial: -(trial.expected_peak_bytes or 0))
    parts: list[RenderableType] = [Text("planned placements: expected beside measured", style="bold")]
    parts += [_expected_table(frontier, trials, rows), Text(LEGEND, style="dim")]
    parts += [Text(sentence) for sentence in accuracy(trials)]
    if plans.cost_source == COUNTED:
        parts += [Text("costs came from FLOPs and bytes: they rank placements, and are no times", style="yellow")]
    return Group(*parts)


def accuracy(trials: Sequence[Trial]) -> list[str]:
    """How far the plans of measured placements were off."""
    peaks = [t.expected_peak_error_share for t in trials if t.expected_peak_error_share is not None]
    times = [abs(t.expected_replay_error_share) for t in trials if t.expected_replay_error_share is not None]
    no_slower = sum(t.expected_replay_ms is not None and t.replay_ms is not None and t.replay_ms <= 0 for t in trials)
    told = []
    if peaks:
        worst = max(peaks, key=abs)
        what = f"the largest error of {len(peaks)} is {error_text(worst)} of what can move" if worst else "all exact"
        told.append(f"expected peaks: {what}")
    if times:
        told.append(
            f"expected replay times: the median error of {len(times)} is {share_text(statistics.median(times), 0)}"
            + (f"; {no_slower} more measured no slower than none" if no_slower else "")
        )
    return told


def _expected_table(frontier: Frontier, trials: Sequence[Trial], rows: dict[str, Plan]) -> Table:
    shortening = shorten((trial.placement for trial in frontier.trials), long_names(frontier.trials))
    memory = memory_unit(peak for t in trials for peak in (t.expected_peak_bytes, t.peak_allocated_bytes))
    time = time_unit(ms for t in trials for ms in (t.expected_replay_ms, t.replay_ms))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("placement", min_width=LABEL_WIDTH_MIN)
    for header in (
        *(f"peak {memory.name}\nexpected", "\nmeasured", "\nerror"),
        *(f"replay {time.name}\nexpected", "\nmeasured", "\nerror", "\nround"),
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for trial in trials:
        table.add_row(
            Folded(shortening.label(trial.placement)),
            memory.text(trial.expected_peak_bytes),
            memory.text(trial.peak_allocated_bytes),
            error_text(trial.expected_peak_error_share),
            time.text(trial.expected_replay_ms),
            time.text(trial.replay_ms),
            percent_text(trial.expected_replay_error_share),
            str(rows[trial.placement].round),
        )
    return table
