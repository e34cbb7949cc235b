"""A placement: the regions of a model that are replayed in backward, what each keeps, and how it is checkpointed."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bench.placement.origin import Origin
from bench.spec import SpecError

if TYPE_CHECKING:
    from pathlib import Path

ID_DIGITS = 10
NONE_TEXT = "none"
UNIT_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class PlacementError(SpecError):
    """A placement that cannot be what was meant: says which region, why, and what to write instead."""


@dataclass(frozen=True, kw_only=True, order=True)
class Kept:
    """One kind of op whose outputs a region keeps in spite of being replayed."""

    op: str
    """A name of `bench.placement.policy.OP_GROUPS` (`matmul`, `attention`) or of an aten op (`native_layer_norm`)."""
    every: int = 1
    """Keep every k-th call of the op in a pass of the region, from its first on (2: calls 0, 2, 4 …; torchtitan's)."""
    calls: tuple[int, ...] = ()
    """Keep exactly these calls instead; empty for all that `every` selects."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", tuple(sorted(set(self.calls))))
        if self.every < 1 or (self.calls and self.every > 1):
            raise PlacementError(f"keep.{self.op}: every K-th call (K of at least 1) or the calls named, not both")


@dataclass(frozen=True, kw_only=True, order=True)
class Options:
    """Options of torch.utils.checkpoint, all explicit since APIs differ in their defaults; `restore` is our own."""

    reentrant: bool = False
    preserve_rng: bool = True
    early_stop: bool = True
    """Replay ends once the last saved tensor is rebuilt; only for non-reentrant regions."""
    determinism_check: bool = True
    """Shapes, dtypes and devices of rebuilt tensors are compared with those first seen; non-reentrant only."""
    restore: bool = False
    """While the region is replayed, its modules' buffers, attributes and generators and Python's and NumPy's random
    states are what its first pass saw, and afterwards what they were. torch's random state is `preserve_rng`'s."""


@dataclass(frozen=True, kw_only=True)
class Region:
    units: tuple[str, ...]
    """Qualified names of one unit, or of consecutive units replayed together (a span), in forward order."""
    keeps: tuple[Kept, ...] = ()
    """The policy: empty keeps nothing."""
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.units:
            raise PlacementError("a region without units")
        for unit in self.units:
            if not UNIT_PATH.fullmatch(unit) or unit == NONE_TEXT:
                raise PlacementError(f"{unit!r} is no module path; write a.b.3 or a.b.0..5 or a.b.0..5.c")
        for index, unit in enumerate(self.units):
            if any(_inside(unit, other) for other in self.units[:index] + self.units[index + 1 :]):
                raise PlacementError(f"region {'/'.join(self.units)}: names a unit twice")
        if self.options.reentrant and self.keeps:
            raise PlacementError(f"region {self.units[0]}: a reentrant checkpoint cannot keep op outputs; drop one")
        if self.options.reentrant and not (self.options.early_stop and self.options.determinism_check):
            raise PlacementError(
                f"region {self.units[0]}: a reentrant checkpoint has no early stop and no determinism check to turn off"
            )
        object.__setattr__(self, "keeps", tuple(sorted(self.keeps)))
        if len({kept.op for kept in self.keeps}) != len(self.keeps):
            raise PlacementError(f"region {self.units[0]}: keeps one op twice")

    def __str__(self) -> str:
        return Placement((self,)).text

    def contains(self, other: Region) -> bool:
        """Whether all of `other` lies inside this region; false for the region itself."""
        if set(self.units) == set(other.units):
            return False
        return all(any(_inside(unit, mine) for mine in self.units) for unit in other.units)

    def touches(self, other: Region) -> bool:
        return any(_inside(a, b) or _inside(b, a) for a in self.units for b in other.units)


@dataclass(frozen=True)
class Placement:
    """A set of regions; nested or apart, never crossing. Equal sets are equal placements with equal text and id."""

    regions: tuple[Region, ...] = ()
    origin: Origin | None = field(default=None, compare=False, repr=False, kw_only=True)
    """Of a placement that was loaded from a file: the study that it was chosen from."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.regions, key=_region_order))
        object.__setattr__(self, "regions", ordered)
        for first, second in _touching_pairs(ordered):
            if set(first.units) == set(second.units):
                raise PlacementError(f"region {first} is named twice")
            if not first.contains(second) and not second.contains(first):
                raise PlacementError(
                    f"regions {first} and {second} cross; one must contain the other, or they must share no unit"
                )

    @cached_property
    def text(self) -> str:
        """The canonical text form; `parse_placement` gives back an equal placement."""
        from bench.placement.canonical import format_placement

        return format_placement(self)

    @property
    def id(self) -> str:
        return placement_id(self.text)

    def depth(self, region: Region) -> int:
        """1 for an outermost region, one more for each region around it."""
        return 1 + sum(other.contains(region) for other in self.regions)

    def __str__(self) -> str:
        return self.text

    def restored(self) -> Placement:
        """Its twin with @restore on every region."""
        return self._with_restore(True)

    def unrestored(self) -> Placement:
        """Without @restore on any region."""
        return self._with_restore(False)

    def _with_restore(self, restore: bool) -> Placement:
        return Placement(tuple(replace(r, options=replace(r.options, restore=restore)) for r in self.regions))

    @classmethod
    def parse(cls, text: str) -> Placement:
        from bench.placement.grammar import parse_placement

        return parse_placement(text)

    @classmethod
    def load(cls, path: str | Path) -> Placement:
        """What `save`, or `recommend … save=FILE`, wrote. Raises PlacementError, saying what is wrong with the file."""
        from bench.placement.saved import load_placement

        return load_placement(path)

    def save(self, path: str | Path) -> None:
        """Writes it as JSON, with its origin where it has one. Raises CannotWriteError."""
        from bench.placement.saved import save_placement

        save_placement(path, self, self.origin)


def placement_id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def natural_order(path: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts `h.2` before `h.10`."""
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in path.split("."))


def _region_order(region: Region) -> tuple[object, ...]:
    return tuple(natural_order(unit) for unit in region.units), region.keeps, region.options


def _inside(path: str, other: str) -> bool:
    return path == other or path.startswith(other + ".")


def _touching_pairs(regions: tuple[Region, ...]) -> Iterable[tuple[Region, Region]]:
    """Pairs of regions that share a unit or hold one inside the other, found through the paths around each unit."""
    owners: dict[str, list[int]] = {}
    for index, region in enumerate(regions):
        for unit in region.units:
            owners.setdefault(unit, []).append(index)
    pairs: set[tuple[int, int]] = set()
    for index, region in enumerate(regions):
        for unit in region.units:
            parts = unit.split(".")
            for ancestor in itertools.accumulate(parts, lambda a, b: f"{a}.{b}"):
                pairs |= {tuple(sorted((index, other))) for other in owners.get(ancestor, ()) if other != index}  # type: ignore[misc]
    return ((regions[a], regions[b]) for a, b in sorted(pairs))


NONE = Placement()
