"""The words of findings: one place that says what each kind of fault is, and what to do about it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from bench.audit.compare import SEED, Difference
from bench.audit.places import HOOKS_OF
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
from bench.placement.errors import WrongGradientsError

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
    ERROR: "leave the unit out, or mend what raises",
}
LEAVE_OUT = "leave the unit out"
POSITION = re.compile(r"tensor at position (\d+)")


def of_op(kind: str, unit: str, where: str, at: OpDifference, cure: str = "") -> Finding:
    """About the first op whose replay differed; `where` is what changed, or the op where nothing explains it."""
    text = {
        RNG: f"its replay draws other numbers from {where}",
        STATE: f"{where} has moved when the replay reads it",
        ATTRIBUTE: f"{where} has changed when the replay reads it",
        EXTERNAL: f"its replay takes another value from {where}",
        MUTATION: f"{where} was written between its first pass and its replay",
        AUTOCAST: "its replay runs under another autocast or precision setting",
        CONTROL: f"{where} was switched between its first pass and its replay",
        HOOK: f"a hook changed {where}",
    }[kind]
    if where.startswith(HOOKS_OF):
        text = f"{where.removeprefix(HOOKS_OF)} has other hooks than in the first pass"
    if where == at.op and kind == EXTERNAL:
        text = "its replay takes another value from outside"
    if where == at.op and kind == CONTROL:
        text = "its replay runs other ops"
    return _finding(kind, unit, where, f"{text}, seen at {_place(at.op, at.module, at.source)}", cure)


def of_early_stop(kind: str, unit: str, op: RanOp) -> Finding:
    """About a tensor that was saved before `op` filled it."""
    told = f"its replay stops before {op.name} fills a tensor that was saved before it ran"
    return _finding(kind, unit, op.name, told, cure="@no-early-stop")


def of_moved(kind: str, unit: str, path: str) -> Finding:
    """About state that a replay moves, and that cannot be compared since no two runs find it alike."""
    return _finding(kind, unit, path, f"its replay moves {path} once more")


def of_written_input(unit: str, shown: str) -> Finding:
    told = f"an input of the region, {shown}, was written before its replay"
    return _finding(MUTATION, unit, "an input of the region", told)


def of_lost_gradients(unit: str) -> Finding:
    told = "none of its inputs requires a gradient, so what it trains gets none"
    return _finding(GRADIENT, unit, "its inputs", told)


def of_structure(unit: str, made: str, given: str) -> Finding:
    return _finding(STRUCTURE, unit, f"{made} became {given}", f"{made} became {given}")


def of_difference(kind: str, unit: str, difference: Difference) -> Finding:
    """About what is different after the steps."""
    name = difference.name or "the loss"
    if difference.what == SEED:
        return _finding(kind, unit, name, f"its replay draws from {name} once more")
    told = " ".join(filter(None, (name, "is", difference.replayed, difference.when)))
    text = f"{told}, in the plain step {difference.plain}"
    return Finding(kind=kind, unit=unit, where=name, text=text, cure=CURES[kind])


def of_error(kind: str, unit: str, error: BaseException, pairs: Sequence[tuple[Call, Pass]]) -> Finding:
    """About what was raised, and what its "tensor at position" is. A refusal of ours ends with what to do."""
    position = _position_told(error, pairs)
    said, cure = str(error), ""
    if position:
        said = said.partition(".\n")[0]  # torch goes on with a dump of the tensors
    if isinstance(error, WrongGradientsError):
        said, _, cure = said.rpartition("; ")
    text = "; ".join(filter(None, (f"{type(error).__name__}: {' '.join(said.split())[:300]}", position)))
    return _finding(kind, unit, type(error).__name__, text, cure)


def where_restored(finding: Finding) -> Finding:
    """The same of a placement that restores already, which need not be told to."""
    cures = [cure for cure in finding.cure.split(", or ") if not cure.startswith(RESTORE)]
    return dataclasses.replace(finding, cure=", or ".join(cures) or LEAVE_OUT)


def _finding(kind: str, unit: str, where: str, text: str, cure: str = "") -> Finding:
    return Finding(kind=kind, unit=unit, where=where, text=f"{unit or 'the model'}: {text}", cure=cure or CURES[kind])


def _place(op: str, module: str, source: str) -> str:
    """`mul in blocks.0 (my_model.py:12 forward)`."""
    return op + (f" in {module}" if module else "") + (f" ({source})" if source else "")


def _position_told(error: BaseException, pairs: Sequence[tuple[Call, Pass]]) -> str:
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
    return f"tensor at position {position} is {shown}, {role} by {_place(op.name, op.module, op.source)}"
