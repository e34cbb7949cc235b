"""Placements that need nothing but the order of the units: every k-th block, and torch's `checkpoint_sequential`.

A model with several chains is taken as one list, chain after chain. A segment that runs over the end of a chain is
cut there, since what lies between two chains is no unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from bench.peers.peer import PeerRefusedError
from bench.placement.types import Placement, Region
from bench.spec import ChainInfo

SQRT = "sqrt"


def every(chains: Sequence[ChainInfo], k: int) -> Placement:
    """Every k-th unit, from the first on, a region of its own."""
    units = [unit for chain in chains for unit in chain.units]
    return Placement(tuple(Region(units=(unit,)) for unit in units[::k]))


def checkpoint_sequential(chains: Sequence[ChainInfo], segments: int | str) -> Placement:
    """torch.utils.checkpoint.checkpoint_sequential(functions, segments, use_reentrant=False).

    As there, a segment is n // segments units, and the last one, which takes the rest, is not checkpointed.

    Args:
        segments: at least 2, or `sqrt` for the rounded root of the number of units.

    Raises:
        PeerRefusedError: there are fewer units than segments, or one segment alone, which is the plain step.
    """
    count = sum(len(chain.units) for chain in chains)
    asked = round(math.sqrt(count)) if segments == SQRT else int(segments)
    if not 2 <= asked <= count:
        raise PeerRefusedError(f"{asked} segments of {count} units; checkpoint_sequential needs 2 to {count} here")
    size = count // asked
    return in_runs(chains, [range(start, start + size) for start in range(0, size * (asked - 1), size)])


def in_runs(chains: Sequence[ChainInfo], runs: Sequence[range]) -> Placement:
    """One region for each run of positions in the list of all units, cut where a chain ends."""
    owners = [(index, unit) for index, chain in enumerate(chains) for unit in chain.units]
    return Placement(tuple(Region(units=units) for run in runs for units in _cut(owners[run.start : run.stop])))


def _cut(owned: Sequence[tuple[int, str]]) -> Iterator[tuple[str, ...]]:
    for _, members in itertools.groupby(owned, key=lambda pair: pair[0]):
        yield tuple(unit for _, unit in members)
