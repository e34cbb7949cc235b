"""The words of findings: one place that says what each kind of fault is, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.audit.compare import SEED, Difference
from bench.audit.verdict import (
    ATTRIBUTE,
    AUTOCAST,
    CONTROL,
    ERROR,
    EXTERNAL,
    GRADIENT,
    HOOK,
    MUTATION,
    RNG,
    STATE,
    STRUCTURE,
    Finding,
    OpDifference,
)
from bench.audit.watch import Call, Pass, RanOp

RESTORE = "@restore"
CURES = {
    RNG: f"keep the RNG state (drop @no-rng), or {RESTORE} for generators that torch does not keep",
    STATE: RESTORE,
    ATTRIBUTE: f"{RESTORE}, or write the attribute outside the region",
    EXTERNAL: "draw the data outside the region and pass it in",
    MUTATION: "change the tensor after backward, or give the region a copy of it",
    AUTOCAST: "enter autocast around the whole step, and change no precision setting before backward has ended",
    CONTROL: "let nothing that the region reads change before backward has ended",
    GRADIENT: "leave @reentrant out, or let an input of the region require a gradient",
    STRUCTURE: "leave @reentrant out: it hands out plain tuples of tensors",
    HOOK: f"{RESTORE}, or put the hook on a module around the region",
    ERROR: "see the error",
}
POSITION = re.compile(r"tensor at position (\d+)")


def finding(
    kind: str,
    unit: str,
    where: str,
    *,
    at: OpDifference | None = None,
    shown: str = "",
    early: RanOp | None = None,
    difference: Difference | None = None,
    error: Exception | None = None,
    position: str = "",
    moved: bool = False,
) -> Finding:
    """One finding in its words.

    Args:
        at: the first op that differed.
        shown: the tensor that it is about.
        early: the op before which the replay stopped.
        difference: what is different after the steps.
        moved: it is about state that the replay moves.
        error: what was raised, and `position`, what its "tensor at position" is.
    """
    region = unit or "the model"
    if error is not None:
        text = f"{region}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        text += f"; {position}" if position else ""
    elif early is not None:
        text = f"{region}: its replay stops before {early.name} fills a tensor that was saved before it ran"
    elif moved:
        text = f"{region}: its replay moves {where} once more"
    elif at is not None:
        text = f"{region}: {_reason(kind, where)}, so that {_op(at)}"
    elif difference is not None and difference.what == SEED:
        text = f"{region}: its replay draws from {where} once more, which {difference.when} is not where it was"
    elif difference is not None:
        after = f" {difference.when}" if difference.when else ""
        text = f"{where} is {difference.replayed}{after}, in the plain step {difference.plain}"
    else:
        text = f"{region}: {_reason(kind, where)}"
    text += f" ({shown})" if shown else ""
    cure = "@no-early-stop" if early is not None else CURES[kind]
    return Finding(kind=kind, unit=unit, where=where, text=text, cure=cure)


def _reason(kind: str, where: str) -> str:
    return {
        RNG: f"its replay draws other numbers from {where}",
        STATE: f"{where} was changed by a forward before its replay read it",
        ATTRIBUTE: f"{where} is not at its replay what it was at its first pass",
        EXTERNAL: f"its replay takes another value from outside ({where})",
        MUTATION: f"{where} was changed between its first pass and its replay",
        AUTOCAST: "its replay runs under another autocast or precision setting",
        CONTROL: f"{where} was switched between its first pass and its replay",
        HOOK: f"a hook changed {where}",
        STRUCTURE: where,
    }.get(kind, where)


def _op(at: OpDifference) -> str:
    where = f" in {at.module}" if at.module else ""
    line = f" ({at.source})" if at.source else ""
    return f"{at.op}{where}{line} makes {at.replayed} instead of {at.first}"


def position_told(error: Exception, pairs: Sequence[tuple[Call, Pass]]) -> str:
    """What a message like "tensor at position 46" stands for."""
    found = POSITION.search(str(error))
    if found is None or not pairs:
        return ""
    first, position = pairs[-1][0].first, int(found.group(1))
    if position >= len(first.packed):
        return ""
    ops, made_last, shown = first.packed[position]
    index = ops - 1 if made_last else ops
    if not 0 <= index < len(first.ops):
        return f"tensor at position {position} is {shown}"
    op, role = first.ops[index], "made" if made_last else "read"
    where = f" in {op.module}" if op.module else ""
    return f"tensor at position {position} is {shown}, {role} by {op.name}{where} ({op.source})"
