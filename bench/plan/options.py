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
from collections.abc import Iterable, Iterator, Sequence
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
from bench.trace.saved import OP, PACK

MAX_KEPT = 10
"""Choices of what to keep in one region."""
WORTH = 0.02
"""What an option frees at least, of what could move (peak less persistent) for a unit of the chains."""
MAX_KEEPING = 8
"""Units of a chain in a region that may keep outputs."""
WORTH_KEEPING = 0.002
"""What keeping an op saves at least, of the region's time."""

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
        calls = itertools.chain.from_iterable(keep.calls for keep in chosen)
        return (keeping(self.regions[0], calls), *self.regions[1:])


def keeping(region: Region, calls: Iterable[tuple[str, int]]) -> Region:
    """The region with a policy that keeps these calls of ops, and nothing else."""
    numbers: dict[str, list[int]] = {}
    for op, call in calls:
        numbers.setdefault(op, []).append(call)
    kept = tuple(Kept(op=op, calls=tuple(of_op)) for op, of_op in numbers.items())
    return dataclasses.replace(region, keeps=kept)


def freed_bytes(tried: Tried) -> int:
    """At the moment at which it frees most."""
    return -int(tried.change.bytes.min())


def options_of(trials: Trials, sites: Sites, runs: Sequence[Run]) -> list[Option]:
    """All options that free memory worth a region, without those that cost more than another for no less memory."""
    maker = _Maker(trials, sites)
    found: list[Option] = []
    known: dict[tuple[int, Units], list[Option] | None] = {}
    for units, is_chained in [*((u, True) for u in sites.chained), *((u, False) for u in sites.inside)]:
        run, by = _first_alike(runs, units)
        if run is None:
            found += maker.at(units, nests=is_chained)
            continue
        first = tuple(run.renamed(unit, -by) for unit in units)
        key = (id(run), first)
        if key not in known:
            options = maker.at(first, nests=is_chained)
            known[key] = options if _stand_for_all(options, run, first, trials) else None
        alike = known[key]
        moved = None if alike is None else [_moved(option, run, by) for option in alike]
        if moved is None or None in moved:
            found += maker.at(units, nests=is_chained)
        else:
            found += [option for option in moved if option is not None]
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
    def __init__(self, trials: Trials, sites: Sites) -> None:
        self._trials, self._atoms = trials, _Atoms(sites)
        singles = {units[0] for units in sites.chained if len(units) == 1}
        movable = int(trials.plain.max()) - trials.persistent_bytes
        self._worth = WORTH * movable / max(len(singles), 1)
        self._parts: dict[str, list[str]] = {}
        """Module → modules right inside it that may be regions."""
        for units in sites.inside:
            if len(units) == 1:
                self._parts.setdefault(self._around(units[0]), []).append(units[0])

    def at(self, units: Units, *, nests: bool) -> list[Option]:
        """One region, and where `nests`, one with others in it: each of its units, or each part of its only one."""
        if self._most_freed(units) < self._worth:
            return []
        bare = Region(units=units)
        tried = self._trials.tried(Placement((bare,)))
        if tried is None or freed_bytes(tried) < self._worth:
            return []
        atoms = self._atoms.of(units)
        keeps, policy_ms = self._keeps(bare, tried) if len(units) <= MAX_KEEPING else ((), 0.0)
        found = [Option((bare,), atoms, tried.cost_ms, tried.change, policy_ms, keeps)]
        parts = units if len(units) > 1 else self._parts.get(units[0], ())
        inner = [unit for unit in parts if self._most_freed((unit,)) >= self._worth]
        if nests and inner:
            regions = (bare, *(Region(units=(unit,)) for unit in inner))
            nested = self._trials.tried(Placement(regions))
            if nested is not None:
                found.append(Option(regions, atoms, nested.cost_ms, nested.change))
        return found

    def _around(self, module: str) -> str:
        """The module that calls it, or one further out."""
        return next((path for path in _paths_above(module) if path in self._trials.script.calls), "")

    def _most_freed(self, units: Units) -> int:
        """What the region could free at most: all that is saved in it."""
        script = self._trials.script
        saved = {
            script.packed[index]
            for unit in units
            for call in script.calls[unit]
            for kind, index in script.items[call.enter : call.leave]
            if kind == PACK
        }
        return sum(script.storages[storage].size_bytes for storage in saved & script.from_forward)

    def _keeps(self, bare: Region, tried: Tried) -> tuple[tuple[Keep, ...], float]:
        keeps: list[Keep] = []
        policy_ms = 0.0
        for calls, ms in keepable_ops(self._trials, bare.units, tried.step):
            if ms < WORTH_KEEPING * tried.ops_ms or len(keeps) == MAX_KEPT:
                break
            kept = self._trials.tried(Placement((keeping(bare, calls),)))
            if kept is not None and kept.ops_ms < tried.ops_ms:
                keeps.append(Keep(calls, tried.ops_ms - kept.ops_ms, Change.between(tried.line, kept.line)))
                policy_ms = max(policy_ms, kept.policy_ms)
        return tuple(keeps), policy_ms


def keepable_ops(trials: Trials, units: Units, step: Rearranged) -> list[tuple[tuple[tuple[str, int], ...], float]]:
    """(calls that are kept together, the time of their ops), the most time first.

    Args:
        step: under the region alone, keeping nothing.
    """
    log, replayed = trials.log, set(step.replayed)
    groups: dict[object, list[tuple[str, int]]] = {}
    times: dict[object, float] = {}
    for name, call, index in _region_calls(trials.script, log.ops, units):
        op = log.ops[index]
        made = {s for s in op.writes if log.storages[s].op == index}
        if name is None or index not in replayed or not made or made & trials.rewritten:
            continue
        unit = next(u for u in units if op.module == u or op.module.startswith(u + "."))
        key = (name, op.module[len(unit) :], op.moved_bytes) if len(units) > 1 else index
        groups.setdefault(key, []).append((name, call))
        times[key] = times.get(key, 0.0) + trials.costs.again_ms(index)
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


def _first_alike(runs: Sequence[Run], units: Units) -> tuple[Run | None, int]:
    """The run that they lie in, and how many units before them the first that can stand for them is."""
    for run in runs:
        place = run.place_of(units)
        if place is not None:
            return run, place[0] - 1
    return None, 0


def _stand_for_all(options: Sequence[Option], run: Run, units: Units, trials: Trials) -> bool:
    """Whether what is said of the run's last such region is what trying it says."""
    place = run.place_of(units)
    assert place is not None
    by = len(run.units) - 2 - place[1]
    for option in options[:1]:
        moved = _moved(option, run, by)
        tried = None if moved is None else trials.tried(Placement(moved.regions))
        if moved is None or tried is None:
            return False
        if (moved.change.line(len(tried.line)) != tried.line - trials.plain).any():
            return False
    return True


def _moved(option: Option, run: Run, by: int) -> Option | None:
    change = option.change.moved(run.period, by)
    keeps = [(keep, keep.change.moved(run.period, by)) for keep in option.keeps]
    if change is None or any(of_keep is None for _, of_keep in keeps):
        return None
    return dataclasses.replace(
        option,
        regions=tuple(
            dataclasses.replace(region, units=tuple(run.renamed(u, by) for u in region.units))
            for region in option.regions
        ),
        atoms=frozenset(run.renamed(atom, by) for atom in option.atoms),
        change=change,
        keeps=tuple(dataclasses.replace(keep, change=of_keep) for keep, of_keep in keeps if of_keep is not None),
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
