"""The optimum by enumeration, where a model is small enough for it: the truth that plans are held against.

A model is cut into parts: each unit of its chains, and all that lies outside them. A part's settings are all sets of
regions in it, apart or nested, up to a number of them, each region keeping any subset of its dearest ops. A placement
is a setting for each part; or a region over several parts, with a setting inside it, and settings for the other parts.

Every setting is worked out exactly, alone. Of those that free no more in any moment and cost no less than another, one
is kept. Combinations are taken in the order of their cost, and each is worked out exactly as a whole unless the sum of
what its settings change says, with a margin to spare, that a cheaper one needs no more memory. So the front is that of
all of them as long as sums are off by less than the margin, which `Front.largest_error_bytes` tells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.placement.types import NONE, Placement, Region
from bench.plan.moments import Line
from bench.plan.options import freed_bytes, keepable_ops, keeping
from bench.plan.sites import Sites, Units
from bench.plan.trials import Trials
from bench.spec import ChainInfo

CHUNK = 4096
"""Combinations whose lines are added at once."""


class TooManyError(ValueError):
    """The space is larger than was allowed; says how large."""


@dataclass(frozen=True, kw_only=True)
class Space:
    max_regions: int = 2
    """In one part, or over several."""
    max_kept: int = 3
    """Ops that a region may keep, the dearest of them; all subsets."""
    min_freed_share: float = 0.005
    """Of what could move (peak less persistent), what a region frees alone, else it is left out."""
    max_combinations: int = 5_000_000
    margin_share: float = 0.01
    """By how much sums of changes may be off, of what could move."""


@dataclass(frozen=True, kw_only=True)
class Point:
    placement: Placement
    peak_bytes: int
    cost_ms: float


@dataclass(frozen=True, kw_only=True)
class Front:
    points: tuple[Point, ...]
    """No placement of the space beats one of them in both; the cheapest first, which is `none`."""
    num_placements: int
    """In the space, before any was left out."""
    num_forecast: int
    """Worked out exactly as a whole, settings alone included."""
    largest_error_bytes: int
    """By which a sum of changes took a peak to be higher than it is, among those worked out."""
    margin_bytes: int

    def cheapest_within(self, budget_bytes: int) -> Point | None:
        return next((point for point in self.points if point.peak_bytes <= budget_bytes), None)


def optimal_front(trials: Trials, sites: Sites, chains: Sequence[ChainInfo], space: Space) -> Front:
    """
    Args:
        sites: where regions may stand.

    Raises:
        TooManyError: more combinations than `space` allows.
    """
    return _Enumeration(trials, sites, chains, space).front()


@dataclass(frozen=True, eq=False)
class _Setting:
    regions: tuple[Region, ...]
    line: Line
    """What it changes."""
    cost_ms: float


class _Enumeration:
    def __init__(self, trials: Trials, sites: Sites, chains: Sequence[ChainInfo], space: Space) -> None:
        self._trials, self._space = trials, space
        self._movable = int(trials.plain.max()) - trials.persistent_bytes
        self._units = [unit for chain in chains for unit in chain.units]
        self._num_settings: dict[frozenset[str], int] = {}
        useful = [units for units in (*sites.chained, *sites.inside) if self._frees(units)]
        parts = {units: self._parts_of(units) for units in useful}
        self._inside: dict[str, list[Units]] = {}
        self._wide: list[Units] = []
        for units, touched in parts.items():
            if len(touched) == 1:
                self._inside.setdefault(next(iter(touched)), []).append(units)
            else:
                self._wide.append(units)
        self._parts = parts

    def front(self) -> Front:
        choices = {part: self._settings(frozenset([part]), sites) for part, sites in self._inside.items()}
        groups = [list(choices.values())]
        for units in self._wide:
            touched = self._parts[units]
            inner = [site for part in touched for site in self._inside.get(part, ())]
            rest = [settings for part, settings in choices.items() if part not in touched]
            groups.append([self._settings(touched, inner, outer=units), *rest])
        total = sum(math.prod(len(settings) for settings in group) for group in groups)
        if total > self._space.max_combinations:
            raise TooManyError(
                f"{total} combinations of settings, and {self._space.max_combinations} are allowed: "
                "fewer regions, kept ops or blocks make it less"
            )
        return self._walked([combination for group in groups for combination in _Combinations.of(group)])

    def _frees(self, units: Units) -> bool:
        tried = self._trials.tried(Placement((Region(units=units),)))
        return tried is not None and freed_bytes(tried) >= self._space.min_freed_share * self._movable

    def _parts_of(self, units: Units) -> frozenset[str]:
        """Units of the chains that it touches; "" for what lies outside them."""
        touched = {
            unit
            for unit in self._units
            for mine in units
            if mine == unit or mine.startswith(unit + ".") or unit.startswith(mine + ".")
        }
        return frozenset(touched or {""})

    def _settings(self, parts: frozenset[str], sites: Sequence[Units], outer: Units | None = None) -> list[_Setting]:
        found = [] if outer else [_Setting((), np.zeros_like(self._trials.plain), 0.0)]
        for chosen in self._sets(sites, outer):
            for regions in itertools.product(*(self._policies(units) for units in chosen)):
                tried = self._trials.tried(Placement(regions))
                if tried is not None:
                    found.append(_Setting(regions, tried.line - self._trials.plain, tried.cost_ms))
        self._num_settings[parts | {"/".join(outer or ())}] = len(found)
        return _undominated(found)

    def _sets(self, sites: Sequence[Units], outer: Units | None) -> Iterator[tuple[Units, ...]]:
        """Sets of sites, none of which crosses another."""
        around = (outer,) if outer else ()
        for count in range(len(around) == 0, self._space.max_regions - len(around) + 1):
            for chosen in itertools.combinations(sites, count):
                regions = [Region(units=units) for units in (*around, *chosen)]
                if all(
                    a.contains(b) or b.contains(a) or not a.touches(b) for a, b in itertools.combinations(regions, 2)
                ):
                    yield (*around, *chosen)

    def _policies(self, units: Units) -> list[Region]:
        region = Region(units=units)
        tried = self._trials.tried(Placement((region,)))
        ops = keepable_ops(self._trials, units, tried.step) if tried is not None else []
        calls = [calls for calls, ms in ops[: self._space.max_kept] if ms > 0]
        return [
            keeping(region, itertools.chain.from_iterable(kept))
            for count in range(len(calls) + 1)
            for kept in itertools.combinations(calls, count)
        ]

    def _walked(self, groups: Sequence[_Combinations]) -> Front:
        margin = round(self._space.margin_share * self._movable)
        costs = np.concatenate([group.costs() for group in groups])
        peaks = np.concatenate([group.peaks(self._trials.plain) for group in groups])
        starts = np.cumsum([0, *(group.count for group in groups)])
        before = self._trials.count
        plain = Point(placement=NONE, peak_bytes=int(self._trials.plain.max()), cost_ms=0.0)
        points, error = [plain], 0
        for number in np.lexsort((peaks, costs)).tolist():
            if peaks[number] - margin >= points[-1].peak_bytes:
                continue
            group = int(np.searchsorted(starts, number, side="right")) - 1
            placement = Placement(groups[group].regions(number - int(starts[group])))
            tried = self._trials.tried(placement)
            if tried is None:
                continue
            peak = int(tried.line.max())
            error = max(error, int(peaks[number]) - peak)
            if peak < points[-1].peak_bytes:
                if points[-1].cost_ms >= tried.cost_ms:
                    points.pop()
                points.append(Point(placement=placement, peak_bytes=peak, cost_ms=tried.cost_ms))
        return Front(
            points=tuple(points),
            num_placements=self._num_placements(),
            num_forecast=self._trials.count - before + sum(self._num_settings.values()),
            largest_error_bytes=error,
            margin_bytes=margin,
        )

    def _num_placements(self) -> int:
        """All settings of all parts combined, those included that another setting made needless."""
        single = {part: self._num_settings[frozenset([part, ""])] for part in self._inside}
        total = math.prod(single.values())
        for units in self._wide:
            touched = self._parts[units]
            rest = math.prod(count for part, count in single.items() if part not in touched)
            total += self._num_settings[touched | {"/".join(units)}] * rest
        return total


class _Combinations:
    """One setting of each part, numbered."""

    def __init__(self, settings: Sequence[Sequence[_Setting]]) -> None:
        self._settings = settings
        self._shape = tuple(len(of_part) for of_part in settings)
        self.count = math.prod(self._shape)

    @classmethod
    def of(cls, settings: Sequence[Sequence[_Setting]]) -> Iterator[_Combinations]:
        if all(settings):
            yield cls(settings)

    def costs(self) -> npt.NDArray[np.float64]:
        total = np.zeros(())
        for of_part in self._settings:
            total = np.add.outer(total, np.array([setting.cost_ms for setting in of_part]))
        return total.reshape(-1)

    def peaks(self, plain: Line) -> Line:
        """What sums of changes take them to be."""
        lines = [np.stack([setting.line for setting in of_part]) for of_part in self._settings]
        found = np.empty(self.count, dtype=np.int64)
        for begin in range(0, self.count, CHUNK):
            numbers = np.unravel_index(np.arange(begin, min(begin + CHUNK, self.count)), self._shape)
            total = np.broadcast_to(plain, (len(numbers[0]), len(plain))).copy()
            for of_part, number in zip(lines, numbers, strict=True):
                total += of_part[number]
            found[begin : begin + CHUNK] = total.max(axis=1)
        return found

    def regions(self, number: int) -> tuple[Region, ...]:
        chosen = np.unravel_index(number, self._shape)
        return tuple(
            region
            for of_part, index in zip(self._settings, chosen, strict=True)
            for region in of_part[int(index)].regions
        )


def _undominated(settings: Sequence[_Setting]) -> list[_Setting]:
    kept: list[_Setting] = []
    lines = np.empty((0, len(settings[0].line)), dtype=np.int64) if settings else np.empty((0, 0), dtype=np.int64)
    for setting in sorted(settings, key=lambda s: s.cost_ms):
        if not (lines <= setting.line).all(axis=1).any():
            kept.append(setting)
            lines = np.concatenate([lines, setting.line[None]])
    return kept
