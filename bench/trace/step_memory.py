"""The life of every block under a placement, with its category: of a recorded step, and of one that was worked out."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.placement.types import Placement
from bench.trace.categories import (
    BOUNDARY,
    RANDOM_STATE,
    RANDOM_STATE_BYTES,
    SAVED,
    TEMPORARY,
    WORKSPACES,
    category_of,
)
from bench.trace.compact import StepMemory
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, RegionPass, StepLog, Storage
from bench.trace.rearrange import Rearranged
from bench.trace.rearrange_regions import Entries, RegionCall, entries_of
from bench.trace.rearrange_script import Script
from bench.trace.saved import PACK, Recording

NO_OP = ("", "")


def memory_of_log(log: StepLog) -> StepMemory:
    """Of a step that was recorded."""
    in_replay: list[bool] = []
    for region_pass in log.passes:
        around = region_pass.around != NOWHERE and in_replay[region_pass.around]
        in_replay.append(around or region_pass.kind == REPLAY)

    def is_remade(op: Op) -> bool:
        return op.region_pass != NOWHERE and in_replay[op.region_pass]

    return StepMemory(
        placement=log.placement,
        sizes=[storage.size_bytes for storage in log.storages],
        categories=category_of(log),
        is_remade=[storage.op != NOWHERE and is_remade(log.ops[storage.op]) for storage in log.storages],
        made_by=[_name(log.ops, storage.op) for storage in log.storages],
        persistent=_persistent(log),
        events=log.events,
        phases=log.phases,
    )


def memory_of_rearranged(found: Rearranged, plain: Recording, script: Script, placement: Placement) -> StepMemory:
    """Of a step that was worked out from the plain one.

    Categories follow the rules of `bench.trace.categories`. Blocks of the plain step keep their number; a block that a
    replay made stands for one of them.

    Args:
        plain: what the numbers of `found` are of.
        script: what it was worked out from.

    Raises:
        CannotRearrangeError: as working it out did.
    """
    log, num_plain = plain.log, len(plain.log.storages)
    calls = _calls(entries_of(script, placement))
    categories = category_of(_as_rearranged(plain, found, calls))
    made_by = [_name(log.ops, storage.op) for storage in log.storages]
    is_remade = [False] * num_plain
    given_in_replays = {storage for call in _entered_again(calls, script) for storage in call.boundary}
    lives = _lives(found.events, len(found.sizes))
    moments = [*sorted({begin for begin in found.begins if begin is not None}), len(found.events)]
    for storage, original in enumerate(_originals(found, script, num_plain), start=num_plain):
        made_by.append(NO_OP if original is None else made_by[original])
        is_random_state = original is None and found.sizes[storage] == RANDOM_STATE_BYTES
        is_remade.append(not is_random_state)
        if is_random_state:
            categories.append(RANDOM_STATE)
        elif original is not None and categories[original] == WORKSPACES:
            categories.append(WORKSPACES)
        elif original in given_in_replays:
            categories.append(BOUNDARY)
        else:
            categories.append(SAVED if _outlives_its_replay(lives[storage], moments) else TEMPORARY)
    return StepMemory(
        placement=placement.text,
        sizes=found.sizes,
        categories=categories,
        is_remade=is_remade,
        made_by=made_by,
        persistent=_persistent(log),
        events=found.events,
        phases=found.phases,
    )


@dataclass(frozen=True, slots=True)
class _Life:
    """Positions among the events; None where it was there before, or outlives the step."""

    birth: int | None
    death: int | None


def _persistent(log: StepLog) -> list[int]:
    return [index for index, storage in enumerate(log.storages) if storage.birth is None]


def _name(ops: Sequence[Op], op: int) -> tuple[str, str]:
    return NO_OP if op == NOWHERE else (ops[op].name, ops[op].module)


def _as_rearranged(plain: Recording, found: Rearranged, calls: Sequence[RegionCall]) -> StepLog:
    """The plain step's blocks with the lives that they have under the placement, and what its regions are given: all
    that their categories depend on."""
    storages = _with_roles_of_sums(plain)
    return dataclasses.replace(
        plain.log,
        storages=tuple(
            dataclasses.replace(storage, birth=life.birth, death=life.death)
            for storage, life in zip(storages, _lives(found.events, len(storages)), strict=True)
        ),
        passes=tuple(
            RegionPass(
                region=str(call.region),
                call=0,
                kind=FIRST,
                around=NOWHERE,
                begin=0,
                end=0,
                boundary=call.boundary,
                handed_out=(),
            )
            for call in calls
        ),
        phases=tuple(found.phases),
        events=tuple(found.events),
    )


def _with_roles_of_sums(plain: Recording) -> list[Storage]:
    """A sum of gradients that is added up in place is the block of its first part, which so is what the sum is."""
    storages = list(plain.log.storages)
    for total in sorted(plain.sums):  # of a chain, the last sum comes last
        first = plain.sums[total]
        while first in plain.sums:
            first = plain.sums[first]
        role = storages[first].role or storages[total].role
        storages[first] = dataclasses.replace(storages[first], role=role)
    return storages


def _lives(events: Sequence[int], num_storages: int) -> list[_Life]:
    births: list[int | None] = [None] * num_storages
    deaths: list[int | None] = [None] * num_storages
    for position, event in enumerate(events):
        storage = abs(event) - 1
        if storage < num_storages:
            (births if event > 0 else deaths)[storage] = position
    return [_Life(birth, death) for birth, death in zip(births, deaths, strict=True)]


def _outlives_its_replay(life: _Life, moments: Sequence[int]) -> bool:
    """A replay lasts from one of the step's own moments to the next.

    Args:
        moments: events before each, in order, and all events at the end.
    """
    assert life.birth is not None, "made in the step"
    return life.death is None or life.death >= moments[bisect_right(moments, life.birth)]


def _calls(entries: Entries) -> list[RegionCall]:
    """Of all regions, outer ones before those in them where both begin at one place."""
    return [entry.call for at in entries.values() for entry in at if entry.member == 0]


def _entered_again(calls: Sequence[RegionCall], script: Script) -> Iterator[RegionCall]:
    """Those that lie in another and whose first pass runs again in its replay. That stops early once all is rebuilt, so
    not one after whose beginning the outer region saves nothing but its input."""
    packs = [position for position, (kind, _) in enumerate(script.items) if kind == PACK]
    spans = [(call.members[0].enter, call.members[-1].leave) for call in calls]
    for number, (enter, leave) in enumerate(spans):
        for other, (first, last) in enumerate(spans):
            is_same = (first, last) == (enter, leave)
            if other == number or not first <= enter <= leave <= last or (is_same and number < other):
                continue
            num_packs_after = bisect_left(packs, last) - bisect_left(packs, leave)
            if num_packs_after or not calls[other].region.options.early_stop:
                yield calls[number]
                break


def _originals(found: Rearranged, script: Script, num_plain: int) -> list[int | None]:
    """For each block beyond the plain step's, the one that it stands for: replays make those of their ops, in order.
    None for one that no op made, such as a state of the generator; where that is as large as the block which comes
    next, it is taken for it."""
    wanted = [event - 1 for op in found.replayed for event in script.op_events[op] if event > 0]
    originals: list[int | None] = []
    done = 0
    for size in found.sizes[num_plain:]:
        is_next = done < len(wanted) and script.storages[wanted[done]].size_bytes == size
        originals.append(wanted[done] if is_next else None)
        done += is_next
    return originals
