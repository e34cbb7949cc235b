"""Blocks of a chain that are equal: what one of them changes, the others change at moments of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.plan.sites import Units
from bench.spec import ChainInfo
from bench.trace.log import Op
from bench.trace.rearrange_script import Script
from bench.trace.saved import FORGET, OP, PACK, RELEASE, UNPACK

FEWEST = 5
"""Blocks in a run before it is worth looking at."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Consecutive equal units, between whose begins lie equally many moments in the forward and in the backward."""

    units: tuple[str, ...]
    forward_period: int
    backward_period: int

    def place_of(self, units: Units) -> tuple[int, int] | None:
        """(first, last) of the run's units that these lie in, where they and a neighbour on each side are in it."""
        touched = [number for unit in units if (number := self._number(unit)) is not None]
        if len(touched) < len(units):
            return None
        first, last = min(touched), max(touched)
        return (first, last) if first > 0 and last < len(self.units) - 1 else None

    def _number(self, module: str) -> int | None:
        for number, unit in enumerate(self.units):
            if module == unit or module.startswith(unit + "."):
                return number
        return None

    def renamed(self, module: str, by: int) -> str:
        """The module in the unit that stands `by` units later."""
        number = self._number(module)
        assert number is not None
        return self.units[number + by] + module[len(self.units[number]) :]


def runs_of(script: Script, chains: Sequence[ChainInfo], turn: int) -> list[Run]:
    """
    Args:
        turn: the moment at which the first backward begins.
    """
    found = []
    for chain in chains:
        windows = {unit: window for unit in chain.units if (window := _window(script, unit, turn)) is not None}
        for units in _equal_neighbours(script, chain.units, windows):
            forward = {windows[b].enter - windows[a].enter for a, b in itertools.pairwise(units)}
            backward = {windows[a].backward - windows[b].backward for a, b in itertools.pairwise(units)}
            if len(units) >= FEWEST and len(forward) == len(backward) == 1:
                found.append(Run(units=tuple(units), forward_period=forward.pop(), backward_period=backward.pop()))
    return found


@dataclass(frozen=True, kw_only=True)
class _Window:
    enter: int
    backward: int
    """The first moment of backward at which something that it saved is asked for or let go of."""
    signature: int


def _window(script: Script, unit: str, turn: int) -> _Window | None:
    """None for a unit that is not called once."""
    calls = script.calls.get(unit, ())
    if len(calls) != 1:
        return None
    items = script.items[calls[0].enter : calls[0].leave + 1]
    saved = {index for kind, index in items if kind == PACK}
    after = enumerate(itertools.islice(script.items, turn, None), start=turn)
    touching = [(m, kind) for m, (kind, index) in after if kind in (UNPACK, FORGET, RELEASE) and index in saved]
    if not touching:
        return None
    first, last = touching[0][0], touching[-1][0]
    signature = (
        tuple(_told(script.ops, item) for item in items),
        tuple(kind for kind, _ in script.items[first : last + 1]),
    )
    return _Window(enter=calls[0].enter, backward=first, signature=hash(signature))


def _told(ops: Sequence[Op], item: tuple[str, int]) -> tuple[object, ...]:
    kind, index = item
    return (kind, ops[index].name, ops[index].moved_bytes, ops[index].flops) if kind == OP else (kind,)


def _equal_neighbours(script: Script, units: Sequence[str], windows: dict[str, _Window]) -> list[list[str]]:
    groups: list[list[str]] = []
    for unit in units:
        if unit not in windows:
            continue
        alike = groups and windows[groups[-1][-1]].signature == windows[unit].signature
        if alike:
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return groups
