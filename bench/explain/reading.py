"""A log with what every explanation asks of it, worked out once: classes, who reads what, which unit an op is in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.explain.leaks import leaked
from bench.explain.passes import is_in_replay
from bench.explain.words import owner_of
from bench.placement import parse_placement
from bench.spec import ChainInfo
from bench.trace.categories import BOUNDARY, RANDOM_STATE, SAVED, Classified, classify
from bench.trace.log import FIRST, NOWHERE, Op, StepLog

ACTIVATIONS = (SAVED, BOUNDARY, RANDOM_STATE)
"""Categories that a placement decides on: what the forward leaves for backward, in one form or another."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    log: StepLog
    classes: tuple[Classified, ...]
    """Of each storage."""
    readers: Mapping[int, tuple[int, ...]]
    """Storage → ops that take it in, in order."""
    kept_for: Mapping[int, int]
    """Storage → the first pass that keeps it for its replay, or sets it aside while it replays: boundary tensors and
    random states."""
    leaked: frozenset[int]
    """Storages that something holds on to after the backward that should have freed them."""
    chains: tuple[ChainInfo, ...]

    def category(self, storage: int) -> str:
        return self.classes[storage].category

    def maker(self, storage: int) -> Op | None:
        index = self.log.storages[storage].op
        return None if index == NOWHERE else self.log.ops[index]

    def module_of(self, storage: int) -> str:
        """The module whose forward made it, or that owns it; empty where there is none."""
        held = self.log.storages[storage]
        if held.name:
            return owner_of(held.name)
        maker = self.maker(storage)
        if maker is not None:
            return maker.module
        keeper = self.kept_for.get(storage)
        return "" if keeper is None else units_of(self.log.passes[keeper].region)[0]

    def source_of(self, op: Op) -> str:
        return "" if op.source == NOWHERE else self.log.sources[op.source]

    def region_of(self, op: Op) -> str:
        return "" if op.region_pass == NOWHERE else self.log.passes[op.region_pass].region

    def is_replayed(self, op: Op) -> bool:
        return is_in_replay(self.log, op.region_pass)

    def is_rebuilt(self, storage: int) -> bool:
        """Whether an op of a replay made it."""
        maker = self.maker(storage)
        return maker is not None and self.is_replayed(maker)

    def running(self, events: int) -> int:
        """The op that the last of `events` events happened in, or NOWHERE where it happened between ops."""
        index = self.log.op_at(events)
        return index if index != NOWHERE and self.log.ops[index].end >= events else NOWHERE

    def read_after(self, storage: int, events: int) -> tuple[int, ...]:
        """Ops that read it from then on, the one that runs at that moment included."""
        readers = self.readers.get(storage, ())
        running = self.running(events)
        first = running if running != NOWHERE else self.log.op_at(events) + 1
        return readers[bisect_left(readers, first) :]

    def total_bytes(self, storages: Iterable[int]) -> int:
        return sum(self.log.storages[index].size_bytes for index in storages)


def read(log: StepLog, chains: Sequence[ChainInfo] = ()) -> Reading:
    """
    Args:
        chains: the model's; without them every module counts as one that a placement can name.
    """
    readers: dict[int, list[int]] = {}
    for index, op in enumerate(log.ops):
        for storage in op.reads:
            readers.setdefault(storage, []).append(index)
    classes = tuple(classify(log))
    return Reading(
        log=log,
        classes=classes,
        readers={storage: tuple(ops) for storage, ops in readers.items()},
        kept_for=_kept_for(log, classes),
        leaked=frozenset(leaked(log, classes)),
        chains=tuple(chains),
    )


def units_of(region: str) -> tuple[str, ...]:
    """Units of one region's text form."""
    return tuple(unit for one in parse_placement(region).regions for unit in one.units)


def random_states(reading: Reading) -> dict[int, list[int]]:
    """First pass → random states kept for its replay."""
    states: dict[int, list[int]] = {}
    for storage, number in reading.kept_for.items():
        if reading.category(storage) == RANDOM_STATE and reading.log.passes[number].kind == FIRST:
            states.setdefault(number, []).append(storage)
    return states


def _kept_for(log: StepLog, classes: Sequence[Classified]) -> dict[int, int]:
    kept: dict[int, int] = {}
    for number, p in enumerate(log.passes):
        if p.kind == FIRST:
            for storage in p.boundary:
                kept.setdefault(storage, number)
    begins = [p.begin for p in log.passes]
    for index, held in enumerate(log.storages):
        if classes[index].category == RANDOM_STATE and held.birth is not None:
            following = bisect_left(begins, held.birth + 1)
            if following < len(begins):
                kept[index] = following
    return kept
