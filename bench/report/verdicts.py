"""Verdicts for a terminal: one in full, several as a table with the cause of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

STYLES = {
    "valid": "green",
    "valid-within-tolerance": "green",
    "invalid": "bold red",
    "flaky": "bold red",
    "unsupported": "yellow",
}
Told = Mapping[str, Any]
"""`bench.audit.verdict.Verdict` as a mapping."""


def render_verdicts(verdicts: Sequence[Told]) -> RenderableType:
    if len(verdicts) == 1:
        return render_verdict(verdicts[0])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("placement", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("why, and what to do", overflow="fold")
    for told in verdicts:
        cause = told["findings"][0] if told["findings"] else None
        why = f"{cause['text']}; {cause['cure']}" if cause else "; ".join(told["notes"])
        table.add_row(
            told["placement"], Text(told["outcome"], style=STYLES[told["outcome"]]), cause["kind"] if cause else "", why
        )
    notes = dict.fromkeys(told["batch_note"] for told in verdicts if told["batch_note"])
    return Group(table, *(Text(f"note: {note}", style="yellow") for note in notes))


def render_verdict(told: Told) -> RenderableType:
    """Outcome, each finding with what to do, the first op that differed, and notes."""
    parts: list[RenderableType] = [
        Text.assemble(f"{told['placement']}: ", (told["outcome"], STYLES[told["outcome"]]), f" ({_how_sure(told)})")
    ]
    for finding in told["findings"]:
        parts += [Text(f"  {finding['kind']}: {finding['text']}"), Text(f"    what to do: {finding['cure']}")]
    first = told["first_difference"]
    if first is not None:
        where = " ".join(filter(None, (first["module"], first["source"] and f"({first['source']})")))
        parts += [
            Text(f"  first op that differs: {first['op']}, number {first['position']} of {first['region']}"),
            *([Text(f"    in {where}")] if where else []),
            Text(f"    first pass: {first['first']}"),
            Text(f"    replay:     {first['replayed']}"),
        ]
    notes = [note for note in (told["batch_note"], *told["notes"]) if note]
    return Group(*parts, *(Text(f"note: {note}", style="yellow") for note in notes))


def _how_sure(told: Told) -> str:
    trials, differing = told["trials"], told["differing"]
    tried = f"{trials} {'trial' if trials == 1 else 'trials'} of {told['steps']} steps and a forward"
    if differing:
        return f"{differing} of {tried} {'differs' if differing == 1 else 'differ'}"
    if told["outcome"] == "valid":
        return f"equal to the bit in {tried}"
    return f"within {told['tolerance']:.1e} in {tried}" if told["tolerance"] else tried
