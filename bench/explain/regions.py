"""What each region of a placement frees, from the log of a placed step alone."""

from __future__ import annotations

from dataclasses import dataclass

from bench.explain.identity import identities
from bench.explain.passes import replayed_region
from bench.explain.reading import Reading, units_of
from bench.explain.words import is_inside
from bench.placement import Placement, Region
from bench.trace.categories import BOUNDARY, OF_REPLAY, SAVED
from bench.trace.log import FIRST, NOWHERE, REPLAY


@dataclass(frozen=True, kw_only=True)
class RegionSaving:
    region: str
    freed_bytes: int
    """Rebuilt by its replays, and kept by nobody between forward and replay."""
    duplicate_bytes: int
    """Rebuilt although others had kept it all the same."""
    kept_bytes: int
    """Boundary tensors that no backward reads, only the replay: without the region they would have been let go."""
    held_bytes: int
    """Made by its first passes and kept for backward all the same: by its policy, or by whoever else holds it."""
    boundary: tuple[int, ...]
    """Storages of its first call."""

    @property
    def net_bytes(self) -> int:
        return self.freed_bytes - self.kept_bytes


def region_savings(reading: Reading) -> tuple[RegionSaving, ...]:
    """Of each region that was replayed, over all its calls; in forward order."""
    log = reading.log
    replayed = tuple(dict.fromkeys(p.region for p in log.passes if p.kind == REPLAY))
    regions = [r for r in dict.fromkeys(p.region for p in log.passes if p.kind == FIRST) if r in replayed]
    if not regions:
        return ()
    names = identities(reading)
    twins: dict[object, list[int]] = {}
    for storage, name in enumerate(names):
        twins.setdefault(name, []).append(storage)
    savings: list[RegionSaving] = []
    for region in regions:
        rebuilt = [s for s in range(len(log.storages)) if _is_rebuilt_by(reading, s, region)]
        duplicates = [s for s in rebuilt if _was_kept(reading, s, twins[names[s]], rebuilt)]
        firsts = [p for p in log.passes if p.region == region and p.kind == FIRST]
        boundaries = {s for p in firsts for s in p.boundary if reading.category(s) == BOUNDARY}
        savings.append(
            RegionSaving(
                region=region,
                freed_bytes=reading.total_bytes(rebuilt) - reading.total_bytes(duplicates),
                duplicate_bytes=reading.total_bytes(duplicates),
                kept_bytes=reading.total_bytes(s for s in boundaries if not _is_read_by_backward(reading, s)),
                held_bytes=reading.total_bytes(_held_inside(reading, region)),
                boundary=firsts[0].boundary,
            )
        )
    return tuple(savings)


def wider_than(reading: Reading, region: str) -> str:
    """A wider region than this one: of a unit of the chains the span with its neighbour, else the smallest unit around
    it; empty where there is none."""
    units = units_of(region)
    if len(units) > 1:
        return ""
    chain = next((chain.units for chain in reading.chains if units[0] in chain.units), ())
    if len(chain) > 1:
        first = min(chain.index(units[0]), len(chain) - 2)
        return Placement((Region(units=chain[first : first + 2]),)).text
    around = [unit for chain in reading.chains for unit in chain.units if is_inside(units[0], unit)]
    return max((unit for unit in around if unit != units[0]), key=len, default="")


def _held_inside(reading: Reading, region: str) -> list[int]:
    passes = reading.log.passes
    handed_out = {s for p in passes if p.region == region and p.kind == FIRST for s in p.handed_out}
    return [
        index
        for index, one in enumerate(reading.classes)
        if one.category == SAVED
        and one.kind != OF_REPLAY
        and index not in handed_out
        and (maker := reading.maker(index)) is not None
        and reading.region_of(maker) == region
    ]


def _is_rebuilt_by(reading: Reading, storage: int, region: str) -> bool:
    """Whether a replay of the region made it, and it stayed for the backward after."""
    one, maker = reading.classes[storage], reading.maker(storage)
    if maker is None or not (one.category == BOUNDARY or (one.category == SAVED and one.kind == OF_REPLAY)):
        return False
    return replayed_region(reading.log, maker.region_pass) == region


def _was_kept(reading: Reading, storage: int, twins: list[int], rebuilt: list[int]) -> bool:
    """Whether the tensor that it rebuilds had been left for backward in spite of the region."""
    return any(twin < storage and twin not in rebuilt and reading.category(twin) in (SAVED, BOUNDARY) for twin in twins)


def _is_read_by_backward(reading: Reading, storage: int) -> bool:
    return any(reading.log.ops[op].forward_op != NOWHERE for op in reading.readers.get(storage, ()))
