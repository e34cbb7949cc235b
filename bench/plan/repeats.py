"""Blocks of a chain that are equal: what one of them changes, the others change at moments of their own."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.plan.moments import Line
from bench.plan.sites import Units
from bench.spec import ChainInfo
from bench.step.interface import BACKWARD, FORWARD
from bench.trace.log import Op
from bench.trace.rearrange_script import Script
from bench.trace.saved import FORGET, OP, PACK, PHASE, RELEASE, UNPACK

FEWEST = 5
"""Blocks in a run before it is worth looking at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Consecutive equal units, between whose begins lie equally many moments in each forward and in each backward."""

    units: tuple[str, ...]
    period: Line
    """By how many moments later the next unit does what one does at a moment; less than 0 in backward. Shape
    (moments,)."""

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


def runs_of(script: Script, chains: Sequence[ChainInfo]) -> list[Run]:
    """Runs of at least FEWEST units that are called once in every forward."""
    stretches = [stretch for stretch in _stretches(script) if stretch.phase in (FORWARD, BACKWARD)]
    touches = _touches(script, [stretch for stretch in stretches if stretch.phase == BACKWARD])
    num_forwards = sum(stretch.phase == FORWARD for stretch in stretches)
    found = []
    for chain in chains:
        windows = {
            unit: windows
            for unit in chain.units
            if len(windows := _windows(script, unit, touches)) == num_forwards == len(stretches) // 2
        }
        for units in _equal_neighbours(chain.units, windows):
            period = _period(stretches, [windows[unit] for unit in units], len(script.items))
            if len(units) >= FEWEST and period is not None:
                found.append(Run(units=tuple(units), period=period))
    return found


def _period(stretches: Sequence[_Stretch], windows: Sequence[Sequence[_Window]], num_moments: int) -> Line | None:
    """None where units are not equally far from each other."""
    period = np.zeros(num_moments, dtype=np.int64)
    calls = {FORWARD: 0, BACKWARD: 0}
    for stretch in stretches:
        call = calls[stretch.phase]
        calls[stretch.phase] += 1
        at = [of_unit[call].enter if stretch.phase == FORWARD else of_unit[call].backward for of_unit in windows]
        steps = {after - before for before, after in itertools.pairwise(at)}
        if len(steps) != 1:
            return None
        period[stretch.begin : stretch.end] = steps.pop()
    return period


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """Moments of one phase."""

    phase: str
    begin: int
    end: int


def _stretches(script: Script) -> list[_Stretch]:
    begins = [
        (moment, script.phases[index].phase) for moment, (kind, index) in enumerate(script.items) if kind == PHASE
    ]
    ends = [*(moment for moment, _ in begins[1:]), len(script.items)]
    return [_Stretch(phase=phase, begin=begin, end=end) for (begin, phase), end in zip(begins, ends, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Of one call of a unit."""

    enter: int
    backward: int
    """The first moment of backward at which something that it saved is asked for or let go of."""
    signature: tuple[object, ...]


def _touches(script: Script, backwards: Sequence[_Stretch]) -> dict[int, list[int]]:
    """Saved tensor → moments of backward at which it is asked for or let go of."""
    found: dict[int, list[int]] = {}
    for stretch in backwards:
        for moment in range(stretch.begin, stretch.end):
            kind, index = script.items[moment]
            if kind in (UNPACK, FORGET, RELEASE):
                found.setdefault(index, []).append(moment)
    return found


def _windows(script: Script, unit: str, touches: Mapping[int, Sequence[int]]) -> tuple[_Window, ...]:
    """Of each of its calls; none for a unit that saves nothing in one of them."""
    windows = []
    for call in script.calls.get(unit, ()):
        items = script.items[call.enter : call.leave + 1]
        touched = [m for kind, index in items if kind == PACK for m in touches.get(index, ())]
        if not touched:
            return ()
        first, last = min(touched), max(touched)
        signature = (
            *(_told(script.ops, item) for item in items),
            *(kind for kind, _ in script.items[first : last + 1]),
        )
        windows.append(_Window(enter=call.enter, backward=first, signature=signature))
    return tuple(windows)


def _told(ops: Sequence[Op], item: tuple[str, int]) -> tuple[object, ...]:
    kind, index = item
    return (kind, ops[index].name, ops[index].moved_bytes, ops[index].flops) if kind == OP else (kind,)


def _equal_neighbours(units: Sequence[str], windows: Mapping[str, Sequence[_Window]]) -> list[list[str]]:
    groups: list[list[str]] = []
    for unit in units:
        if unit not in windows:
            groups.append([])  # what stands between two equal units parts them
        elif groups and groups[-1] and _alike(windows[groups[-1][-1]], windows[unit]):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return groups


def _alike(some: Sequence[_Window], others: Sequence[_Window]) -> bool:
    return [window.signature for window in some] == [window.signature for window in others]
