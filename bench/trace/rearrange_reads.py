"""What a region's replay reads from outside, and what hooks may have taken out of its first pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.trace.rearrange_regions import RegionCall
from bench.trace.rearrange_script import BORN, DIED, Script
from bench.trace.saved import ENTER, OP, PACK

CASTS = frozenset({"_to_copy"})
"""How autocast makes a weight's copy in the lower precision."""


@dataclass(frozen=True, slots=True)
class Reads:
    captured: frozenset[int]
    """Storages of a forward that the region reads, and that are neither made in it nor given to it."""
    escaped_after: Mapping[int, tuple[int, ...]]
    """Op → storages that nothing in the region reads after it, which outlive the region although it does not hand them
    out: a hook on a module inside took them. In a replay nobody may want them, so they die somewhere between there and
    its end."""
    casts_before: Mapping[int, tuple[int, ...]]
    """Item → ops that cast weights for it. They ran before the region was entered, and autocast kept what they made; a
    replay enters autocast anew and runs them again."""


def reads_of(script: Script, call: RegionCall) -> Reads:
    made: set[int] = set()
    dropped: set[int] = set()
    inner: set[int] = set()
    last: dict[int, int] = {}
    for member in call.members:
        for position in range(member.enter, member.leave):
            kind, index = script.items[position]
            if kind == OP:
                for event in script.op_events[index]:
                    (made if event > 0 else dropped).add(abs(event) - 1)
                for storage in (*script.ops[index].reads, *script.ops[index].writes):
                    last[storage] = index
            elif kind == BORN:
                made.add(index)
            elif kind == DIED:
                dropped.add(index)
            elif kind == ENTER and position != member.enter:
                inner.update(script.call_at[position].handed_out)
    handed_out = {storage for member in call.members for storage in member.handed_out}
    escaped: dict[int, list[int]] = {}
    for storage in sorted((made & inner) - dropped - handed_out):
        escaped.setdefault(last[storage], []).append(storage)
    captured = (last.keys() & script.from_forward) - made - set(call.boundary)
    casts = {storage for storage in captured if _is_cast(script, storage)}
    return Reads(
        captured=frozenset(captured - casts),
        escaped_after={op: tuple(storages) for op, storages in escaped.items()},
        casts_before=_casts_before(script, call, casts) if casts else {},
    )


def _is_cast(script: Script, storage: int) -> bool:
    op = script.ops[script.storages[storage].op]
    return op.name in CASTS and all(script.storages[read].birth is None for read in op.reads)


def _casts_before(script: Script, call: RegionCall, casts: set[int]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for member in call.members:
        for position in range(member.enter, member.leave):
            kind, index = script.items[position]
            if kind == OP:
                makers = sorted(script.storages[read].op for read in casts.intersection(script.ops[index].reads))
                if makers:
                    found[_first_packed(script, position)] = tuple(makers)
    return found


def _first_packed(script: Script, position: int) -> int:
    """The item at which an op's inputs begin to be saved: after its arguments were cast, and before it runs."""
    reads = set(script.ops[script.items[position][1]].reads)
    later: set[int] = set()
    while script.items[position - 1][0] == PACK:
        storage = script.packed[script.items[position - 1][1]]
        if storage not in reads or storage in later:  # the op before saves its output
            break
        later.add(storage)
        position -= 1
    return position
