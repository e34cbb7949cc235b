"""Where regions may stand: every module, and every run of modules that can be replayed as one.

The model's own tree offers more boundaries than its chains do: a block's activation function alone, a norm with the
projection that follows it, all of a block but its last matmul.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.span import plan_span
from bench.placement.types import Region
from bench.placement.wiring import Wiring
from bench.spec import ChainInfo
from bench.trace.rearrange_script import Call, Script

MAX_LEAVES = 4
"""Modules without parts of their own that are joined in one region across the borders of larger ones."""
MAX_SPAN = 24
"""Units of a chain that are joined; longer ones rebuild more at once than they save in boundaries."""

Units = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sites:
    chained: tuple[Units, ...]
    """Each unit of a chain, and spans of them."""
    inside: tuple[Units, ...]
    """Modules inside units and beside chains, and spans of them."""


def sites_of(script: Script, wiring: Wiring, chains: Sequence[ChainInfo]) -> Sites:
    """All where a region would run with gradients; what memory they free is not asked."""
    calls = {module: called for module, called in script.calls.items() if any(c.with_gradients for c in called)}
    chained = [
        units
        for chain in chains
        for units in _runs([unit for unit in chain.units if unit in calls], MAX_SPAN)
        if _can_be(units, wiring)
    ]
    named = set(chained)
    inside: dict[Units, None] = {}
    for sequence, longest in _sequences(calls, chains):
        for units in _runs(sequence, longest):
            if units not in named and units not in inside and _can_be(units, wiring):
                inside[units] = None
    return Sites(chained=tuple(chained), inside=tuple(inside))


def _sequences(calls: dict[str, Sequence[Call]], chains: Sequence[ChainInfo]) -> Iterator[tuple[list[str], int]]:
    """Modules in the order in which they are called, and how many of them to join at most."""
    order = sorted(calls, key=lambda module: calls[module][0].enter)
    children: dict[str, list[str]] = {}
    for module in order:
        children.setdefault(_parent(module, calls), []).append(module)
    for parts in children.values():
        yield parts, MAX_LEAVES
    units = {unit for chain in chains for unit in chain.units}
    leaves: dict[str, list[str]] = {}
    for module in order:
        if module not in children:
            around = next((unit for unit in _above(module) if unit in units), "")
            leaves.setdefault(around, []).append(module)
    for parts in leaves.values():
        yield parts, MAX_LEAVES


def _parent(module: str, calls: dict[str, Sequence[Call]]) -> str:
    return next((above for above in _above(module) if above in calls), "")


def _above(module: str) -> Iterator[str]:
    """Paths around a module, the innermost first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _runs(sequence: Sequence[str], longest: int) -> Iterator[Units]:
    for length in range(1, min(longest, len(sequence)) + 1):
        for first in range(len(sequence) - length + 1):
            yield tuple(sequence[first : first + length])


def _can_be(units: Units, wiring: Wiring) -> bool:
    if len(units) == 1:
        return True
    try:
        plan_span(Region(units=units), wiring)
    except UnsupportedPlacementError:
        return False
    return True
