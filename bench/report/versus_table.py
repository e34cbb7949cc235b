"""Plans against peers as a table for a terminal and as rows for a file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.frontier.versus import Duel, Versus, mean_ratio_at_budgets
from bench.records import replace_text
from bench.report.labels import shorten
from bench.report.quantities import ABSENT, memory_unit
from bench.report.table import LABEL_WIDTH_MIN, Folded
from bench.stats.verdict import FASTER, SAME

CSV_FILE = "versus.csv"
_PEERS_SHOWN = 3
EVERYDAY = re.compile(r"(transformers-)?every-(block|\d+)|chen-sqrt")
"""Peers' labels: every k-th block, and the square root of Chen et al."""


def render_versus(result: Versus, names: Mapping[str, str] | None = None) -> RenderableType:
    """One row a placement of peers, ours at its peak beside it; then what it amounts to.

    Args:
        names: of placements whose text is too long to be read (`bench.report.names.long_names`).
    """
    parts: list[RenderableType] = [Text("plans against peers, in the same rounds", style="bold")]
    if result.duels:
        parts += [_table(result.duels, names or {})]
    parts += [Text(sentence) for sentence in summary(result)]
    parts += [Text(f"not measured: {label}: {why}", style="dim") for label, why in result.unmeasured]
    return Group(*parts)


def summary(result: Versus) -> list[str]:
    met, total = sum(duel.is_met for duel in result.duels), len(result.duels)
    told = [f"at {met} of {total} peaks of peers a plan with no higher peak is faster or the same"]
    told += [
        f"missed: {', '.join(duel.peers)}: {duel.verdict}{f', {duel.reason}' if duel.reason else ''}"
        for duel in result.misses
    ]
    for name, ratio in (
        ("the best installable peer within each budget", mean_ratio_at_budgets(result, lambda d: d.is_installable)),
        ("the best of every k-th and √n within each budget", mean_ratio_at_budgets(result, _is_everyday)),
        ("the best peer within each budget", mean_ratio_at_budgets(result, lambda _: True)),
    ):
        if ratio is not None:
            told.append(f"step time over {name}: {ratio:.3f} in the geometric mean")
    return told


def versus_rows(result: Versus) -> list[dict[str, Any]]:
    """For CSV and JSON."""
    return [
        {
            "peers": " | ".join(duel.peers),
            "installable": duel.is_installable,
            "their_placement": duel.theirs,
            "their_peak_bytes": duel.their_peak_bytes,
            "their_time_ratio": duel.their_time_ratio,
            "our_placement": duel.ours,
            "our_peak_bytes": duel.our_peak_bytes,
            "time_ratio": duel.ratio,
            "time_ratio_low": duel.interval.low if duel.interval is not None else None,
            "time_ratio_high": duel.interval.high if duel.interval is not None else None,
            "verdict": duel.verdict,
            "reason": duel.reason,
        }
        for duel in result.duels
    ]


def write_versus_csv(directory: Path, result: Versus) -> None:
    """`versus.csv`: a row for each placement of peers.

    Raises:
        CannotWriteError: the directory is full or not writable.
    """
    text = io.StringIO()
    if rows := versus_rows(result):
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    replace_text(directory / CSV_FILE, text.getvalue())


def _is_everyday(duel: Duel) -> bool:
    return any(EVERYDAY.fullmatch(label) for label in duel.peers)


def _table(duels: Sequence[Duel], names: Mapping[str, str]) -> Table:
    shortening = shorten((duel.ours for duel in duels if duel.ours is not None), names)
    memory = memory_unit(duel.their_peak_bytes for duel in duels)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("peer", min_width=LABEL_WIDTH_MIN)
    for header in (f"peak\n{memory.name}", f"ours\n{memory.name}", "time\nours/theirs", "95 %"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("ours")
    for duel in duels:
        style = {FASTER: "green", SAME: ""}.get(duel.verdict, "red")
        table.add_row(
            Folded(_peers(duel)),
            memory.text(duel.their_peak_bytes),
            memory.text(duel.our_peak_bytes),
            ABSENT if duel.ratio is None else f"{duel.ratio:.3f}",
            ABSENT if duel.interval is None else f"{duel.interval.low:.3f}–{duel.interval.high:.3f}",
            Text(duel.verdict, style=style),
            Folded(ABSENT if duel.ours is None else shortening.label(duel.ours)),
        )
    return table


def _peers(duel: Duel) -> str:
    more = len(duel.peers) - _PEERS_SHOWN
    return ", ".join(duel.peers[:_PEERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
