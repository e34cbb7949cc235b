"""The options that a plan chooses from: a region, or nested ones, what they cost, and what they change in memory.

Each is tried alone: the forecast of the placement that has no other region says what it replays and what it changes at
every moment. On top of that a policy may keep outputs of ops that the region would run again: each saves that op's time
and takes its bytes, whatever else is kept, so it is a choice of its own. Blocks that are equal to one another are tried
once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.placement.policy import OP_GROUPS
from bench.placement.types import Kept, Placement, Region
from bench.plan.moments import Change, Line
from bench.plan.repeats import Run
from bench.plan.sites import Sites, Units
from bench.plan.trials import Trials, Tried
from bench.trace.log import Op
from bench.trace.rearrange import Rearranged
from bench.trace.rearrange_script import Call, Script
from bench.trace.saved import OP

MAX_KEPT = 10
"""Choices of what to keep in one region."""
WORTH = 0.002
"""What an option frees at least, of what could move (peak less persistent), and what keeping an op saves at least, of
the region's time."""

_GROUP_OF = {op: group for group, ops in OP_GROUPS.items() for op in ops}


@dataclass(frozen=True, eq=False)
class Keep:
    """Outputs that the region keeps: of one op, or of the same op of each of its equal blocks."""

    calls: tuple[tuple[str, int], ...]
    """(what a policy calls the op, number of its call in a pass of the region)."""
    saved_ms: float
    change: Change
    """Against the region that keeps nothing."""


@dataclass(frozen=True, eq=False)
class Option:
    regions: tuple[Region, ...]
    """The outermost first; that one may keep outputs."""
    atoms: frozenset[str]
    """The smallest modules that it covers: two options go together where they share none."""
    cost_ms: float
    change: Change
    policy_ms: float = 0.0
    """What having a policy costs, whatever it keeps."""
    keeps: tuple[Keep, ...] = ()

    def keeping(self, chosen: Sequence[Keep]) -> tuple[Region, ...]:
        calls: dict[str, list[int]] = {}
        for op, call in itertools.chain.from_iterable(keep.calls for keep in chosen):
            calls.setdefault(op, []).append(call)
        kept = tuple(Kept(op=op, calls=tuple(numbers)) for op, numbers in calls.items())
        return (dataclasses.replace(self.regions[0], keeps=kept), *self.regions[1:])


def options_of(trials: Trials, sites: Sites, runs: Sequence[Run]) -> list[Option]:
    """All options that free memory worth a region, without those that cost more than another for no less memory."""
    atoms = _Atoms(sites)
    maker = _Maker(trials, atoms)
    found: list[Option] = []
    known: dict[tuple[int, Units], list[Option]] = {}
    for units, is_chained in [*((u, True) for u in sites.chained), *((u, False) for u in sites.inside)]:
        run, by = _first_alike(runs, units)
        if run is None:
            found += maker.at(units, nests=is_chained)
            continue
        first = tuple(run.renamed(unit, -by) for unit in units)
        key = (id(run), first)
        if key not in known:
            known[key] = maker.at(first, nests=is_chained)
        found += [_moved(option, run, by, trials.turn) for option in known[key]] if by else known[key]
    return _undominated(found, len(trials.plain))


class _Atoms:
    def __init__(self, sites: Sites) -> None:
        self._modules = {unit for units in (*sites.chained, *sites.inside) for unit in units}
        above = {path for module in self._modules for path in _paths_above(module)}
        self._leaves = self._modules - above
        self._below: dict[str, set[str]] = {}
        for leaf in self._leaves:
            for path in (leaf, *_paths_above(leaf)):
                self._below.setdefault(path, set()).add(leaf)

    def of(self, units: Units) -> frozenset[str]:
        return frozenset().union(*(self._below[unit] for unit in units))


def _paths_above(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


class _Maker:
    def __init__(self, trials: Trials, atoms: _Atoms) -> None:
        self._trials, self._atoms = trials, atoms
        self._rewritten = _rewritten(trials.log.ops)
        self._worth = WORTH * (int(trials.plain.max()) - trials.persistent_bytes)

    def at(self, units: Units, *, nests: bool) -> list[Option]:
        """One region, and one with each of its units nested in it where `nests`."""
        bare = Region(units=units)
        tried = self._trials.tried(Placement((bare,)))
        if tried is None or -int((tried.line - self._trials.plain).min()) < self._worth:
            return []
        option = Option((bare,), self._atoms.of(units), tried.cost_ms, tried.change)
        found = [dataclasses.replace(option, keeps=keeps, policy_ms=ms) for keeps, ms in [self._keeps(bare, tried)]]
        if nests and len(units) > 1:
            regions = (bare, *(Region(units=(unit,)) for unit in units))
            nested = self._trials.tried(Placement(regions))
            if nested is not None:
                found.append(Option(regions, option.atoms, nested.cost_ms, nested.change))
        return found

    def _keeps(self, bare: Region, tried: Tried) -> tuple[tuple[Keep, ...], float]:
        total = sum(self._trials.costs.op_ms[index] for index in tried.step.replayed)
        keeps: list[Keep] = []
        policy_ms = 0.0
        for calls, ms in self._keepable(bare.units, tried.step):
            if ms < WORTH * total or len(keeps) == MAX_KEPT:
                break
            keep = Keep(calls, ms, tried.change)
            kept = self._trials.tried(Placement(Option((bare,), frozenset(), 0, tried.change).keeping([keep])))
            if kept is not None:
                keeps.append(dataclasses.replace(keep, change=Change.between(tried.line, kept.line)))
                policy_ms = max(policy_ms, kept.policy_ms)
        return tuple(keeps), policy_ms

    def _keepable(self, units: Units, step: Rearranged) -> list[tuple[tuple[tuple[str, int], ...], float]]:
        """(calls that are kept together, the time of their ops), the most time first."""
        log, replayed = self._trials.log, set(step.replayed)
        groups: dict[object, list[tuple[str, int]]] = {}
        times: dict[object, float] = {}
        for name, call, index in _region_calls(self._trials.script, log.ops, units):
            op = log.ops[index]
            made = {s for s in op.writes if log.storages[s].op == index}
            if name is None or index not in replayed or not made or made & self._rewritten:
                continue
            unit = next(u for u in units if op.module == u or op.module.startswith(u + "."))
            key = (name, op.module[len(unit) :], op.moved_bytes) if len(units) > 1 else index
            groups.setdefault(key, []).append((name, call))
            times[key] = times.get(key, 0.0) + self._trials.costs.op_ms[index]
        return [(tuple(groups[key]), ms) for key, ms in sorted(times.items(), key=lambda entry: -entry[1])]


def _region_calls(script: Script, ops: Sequence[Op], units: Units) -> Iterator[tuple[str | None, int, int]]:
    """(what a policy calls the op, number of its call in a pass of the region, op of the log); None for an op that has
    no name there. Of the region's first call in the step."""
    counts: Counter[str] = Counter()
    for call in _first_calls(script, units):
        for kind, index in itertools.islice(script.items, call.enter, call.leave):
            if kind == OP:
                space, _, name = ops[index].name.rpartition("::")
                name = _GROUP_OF.get(name, name)
                yield (None if space or name.endswith("_") else name), counts[name], index
                counts[name] += 1


def _first_calls(script: Script, units: Units) -> list[Call]:
    return [next(call for call in script.calls[unit] if call.with_gradients) for unit in units]


def _rewritten(ops: Sequence[Op]) -> set[int]:
    """Storages that an op changes that did not make them; what a policy keeps must stay as it was."""
    made: set[int] = set()
    changed: set[int] = set()
    for op in ops:
        for storage in op.writes:
            (changed if storage in made else made).add(storage)
    return changed


def _first_alike(runs: Sequence[Run], units: Units) -> tuple[Run | None, int]:
    """The run that they lie in, and how many units before them the first that can stand for them is."""
    for run in runs:
        place = run.place_of(units)
        if place is not None:
            return run, place[0] - 1
    return None, 0


def _moved(option: Option, run: Run, by: int, turn: int) -> Option:
    def moved(change: Change) -> Change:
        return change.moved(turn, by * run.forward_period, -by * run.backward_period)

    return dataclasses.replace(
        option,
        regions=tuple(
            dataclasses.replace(region, units=tuple(run.renamed(u, by) for u in region.units))
            for region in option.regions
        ),
        atoms=frozenset(run.renamed(atom, by) for atom in option.atoms),
        change=moved(option.change),
        keeps=tuple(dataclasses.replace(keep, change=moved(keep.change)) for keep in option.keeps),
    )


def _undominated(options: Sequence[Option], num_moments: int) -> list[Option]:
    """Without those that another with the same atoms beats in cost at no more memory in any moment, where neither has a
    policy to choose."""
    kept: list[Option] = []
    by_atoms: dict[frozenset[str], list[Line]] = {}
    for option in sorted(options, key=lambda o: o.cost_ms):
        rivals = by_atoms.setdefault(option.atoms, [])
        line = option.change.line(num_moments)
        if option.keeps or not any((other <= line).all() for other in rivals):
            kept.append(option)
        rivals.append(line)
    return kept
