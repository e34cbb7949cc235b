"""How much of each chain a placement covers: only one of two lists of blocks is a classic mistake."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.placement.grammar import parse_placement
from bench.spec import ChainInfo

UNITS = "units"
"""The kind of the chain's units themselves."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Repeated modules of one kind in one chain, and those of them that lie inside a region."""

    chain: str
    kind: str
    """UNITS, or a kind of submodule (`attention`, `mlp`)."""
    num_covered: int
    num_modules: int
    """Modules in the whole chain: a kind that a unit holds twice, as self- and cross-attention, counts twice."""

    @property
    def text(self) -> str:
        """`encoder 6/6`, `decoder mlp 0/6`."""
        kind = "" if self.kind == UNITS else f" {self.kind}"
        return f"{self.chain}{kind} {self.num_covered}/{self.num_modules}"


def placement_coverage(chains: Sequence[ChainInfo], placement: str) -> tuple[Coverage, ...]:
    """One entry a chain and kind, each chain's units first.

    A module is covered where a region names it or a module around it.

    Raises:
        PlacementError: `placement` is no placement text.
    """
    named = {unit for region in parse_placement(placement).regions for unit in region.units}
    return tuple(_count(chain, kind, modules, named) for chain in chains for kind, modules in _modules(chain).items())


def is_uneven(coverage: Sequence[Coverage]) -> bool:
    """Whether chains differ in the share that is covered, of their units or of any kind that they all have."""
    shares: dict[str, set[float]] = {}
    for entry in coverage:
        if entry.num_modules:
            shares.setdefault(entry.kind, set()).add(entry.num_covered / entry.num_modules)
    kinds_of = [{entry.kind for entry in coverage if entry.chain == chain} for chain in {e.chain for e in coverage}]
    common = set.intersection(*kinds_of) if kinds_of else set()
    return any(len(shares.get(kind, ())) > 1 for kind in common)


def summarize(coverage: Sequence[Coverage]) -> str:
    """`encoder 6/6, decoder 0/6`: of each chain its units, or, where none is covered whole, the kinds that are."""
    parts = []
    for _, of_chain in itertools.groupby(coverage, key=lambda entry: entry.chain):
        units, *kinds = of_chain
        covered = [entry for entry in kinds if entry.num_covered]
        parts += [entry.text for entry in (covered if covered and not units.num_covered else [units])]
    return ", ".join(parts)


def _modules(chain: ChainInfo) -> dict[str, list[str]]:
    """Kind → qualified names in the whole chain."""
    of_kinds = {
        kind: [f"{unit}.{path}" for unit in chain.units for path in paths] for kind, paths in chain.kinds.items()
    }
    return {UNITS: list(chain.units)} | of_kinds


def _count(chain: ChainInfo, kind: str, modules: Sequence[str], named: set[str]) -> Coverage:
    num_covered = sum(not named.isdisjoint(_around(module)) for module in modules)
    return Coverage(chain=chain.name, kind=kind, num_covered=num_covered, num_modules=len(modules))


def _around(module: str) -> list[str]:
    """The module itself and all that hold it: `a`, `a.b`, `a.b.c` of `a.b.c`."""
    return list(itertools.accumulate(module.split("."), lambda outer, inner: f"{outer}.{inner}"))
