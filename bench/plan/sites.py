"""Where regions may stand: every module, and every run of modules that can be replayed as one.

The model's own tree offers more boundaries than its chains do: a block's activation function alone, a norm with the
projection that follows it, all of a block but its last matmul.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.span import plan_span
from bench.placement.types import Region
from bench.placement.wiring import UnitCall, Wiring
from bench.spec import ChainInfo
from bench.trace.rearrange_script import Call, Script

MAX_LEAVES = 4
"""Modules without parts of their own that are joined in one region across the borders of larger ones."""
SPANS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
"""Units of a chain that are joined; longer ones rebuild more at once than they save in boundaries."""

Units = tuple[str, ...]
_Wired = Mapping[str, Sequence[tuple[int, UnitCall]]]
"""Unit → its calls, each with its place among those of all units."""


@dataclass(frozen=True, kw_only=True)
class Sites:
    chained: tuple[Units, ...]
    """Each unit of a chain, and spans of them."""
    inside: tuple[Units, ...]
    """Modules inside units and beside chains, and spans of them."""


def sites_of(script: Script, wiring: Wiring, chains: Sequence[ChainInfo]) -> Sites:
    """All where a region would run with gradients; what memory they free is not asked."""
    calls = {module: called for module, called in script.calls.items() if any(c.with_gradients for c in called)}
    wired = _by_unit(wiring)
    chained: dict[Units, None] = {}
    for chain in chains:
        units = [unit for unit in chain.units if unit in calls]
        chained |= dict.fromkeys(_replayable(units, wired, SPANS))
    inside: dict[Units, None] = {}
    for sequence in _sequences(calls, chains):
        inside |= dict.fromkeys(_replayable(sequence, wired, range(1, MAX_LEAVES + 1)))
    return Sites(chained=tuple(chained), inside=tuple(units for units in inside if units not in chained))


def _sequences(calls: dict[str, Sequence[Call]], chains: Sequence[ChainInfo]) -> Iterator[list[str]]:
    """Modules in the order in which they are called: the parts of each module, and what has no parts."""
    order = sorted(calls, key=lambda module: calls[module][0].enter)
    children: dict[str, list[str]] = {}
    for module in order:
        children.setdefault(_parent(module, calls), []).append(module)
    yield from children.values()
    units = {unit for chain in chains for unit in chain.units}
    leaves: dict[str, list[str]] = {}
    for module in order:
        if module not in children:
            around = next((unit for unit in _above(module) if unit in units), "")
            leaves.setdefault(around, []).append(module)
    yield from leaves.values()


def _parent(module: str, calls: dict[str, Sequence[Call]]) -> str:
    return next((above for above in _above(module) if above in calls), "")


def _above(module: str) -> Iterator[str]:
    """Paths around a module, the innermost first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _replayable(sequence: Sequence[str], wired: _Wired, lengths: Sequence[int]) -> Iterator[Units]:
    """Runs of the sequence, of the lengths given, that can be one region; the shortest first."""
    reach = [_reach(sequence[first : first + max(lengths)], wired) for first in range(len(sequence))]
    for length in lengths:
        for first, longest in enumerate(reach):
            if length <= longest:
                yield tuple(sequence[first : first + length])


def _reach(units: Sequence[str], wired: _Wired) -> int:
    """The most of these, from the first on, that one region can replay. What forbids a span forbids each longer one
    with the same first unit: a member is given what no member before it made."""
    possible, impossible = 1, len(units) + 1
    while impossible - possible > 1:
        length = possible + 1 if possible == 1 else (possible + impossible) // 2
        if _can_be(tuple(units[:length]), wired):
            possible = length
        else:
            impossible = length
    return possible


def _can_be(units: Units, wired: _Wired) -> bool:
    # Only their own calls: looking them up among those of all modules takes longer than the plan itself.
    theirs = sorted((entry for unit in units for entry in wired.get(unit, ())), key=lambda entry: entry[0])
    try:
        plan_span(Region(units=units), Wiring(tuple(call for _, call in theirs)))
    except UnsupportedPlacementError:
        return False
    return True


def _by_unit(wiring: Wiring) -> _Wired:
    found: dict[str, list[tuple[int, UnitCall]]] = {}
    for number, call in enumerate(wiring.calls):
        found.setdefault(call.unit, []).append((number, call))
    return found
