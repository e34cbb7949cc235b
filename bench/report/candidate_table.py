"""What to replay next: regions that would free something at the peak, the best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.explain.words import gflop_text
from bench.report.labels import shorten
from bench.report.quantities import memory_unit, share_text
from bench.report.table import LABEL_WIDTH_MIN, Folded

MAX_ROWS = 8


def render_candidates(candidates: Sequence[Mapping[str, Any]], peak_bytes: int) -> RenderableType:
    """
    Args:
        candidates: `bench.trace.candidate.Candidate` as mappings, the best first.
        peak_bytes: that of the placement they go on from.
    """
    shown = candidates[:MAX_ROWS]
    memory = memory_unit(one["freed_bytes"] for one in shown)
    shortening = shorten(one["placement"] for one in shown)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("to try next", min_width=LABEL_WIDTH_MIN)
    for header in (f"frees\n{memory.name}", "of the\npeak", "replays\nGFLOP"):
        table.add_column(header, justify="right", no_wrap=True)
    for one in shown:
        table.add_row(
            Folded(shortening.label(one["placement"])),
            memory.text(one["freed_bytes"]),
            share_text(one["freed_bytes"] / peak_bytes),
            gflop_text(one["replay_flops"]),
        )
    parts: list[RenderableType] = [table]
    if len(candidates) > len(shown):
        parts.append(Text(f"{len(candidates) - len(shown)} more in out=FILE", style="dim"))
    parts += [Text(sentence, style="dim") for sentence in shortening.explanations()]
    return Group(*parts)
