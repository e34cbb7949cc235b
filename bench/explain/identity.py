"""Which tensor of one step is which of another: names that hold across placements of one model.

A replayed op is the forward op that it repeats, so a rebuilt tensor has the name of the one that was let go.
"""

from __future__ import annotations

from collections import Counter

from bench.explain.passes import around, replays_around
from bench.explain.reading import Reading
from bench.trace.categories import RANDOM_STATE
from bench.trace.log import FIRST, NOWHERE

Identity = tuple[object, ...]


def identities(reading: Reading) -> list[Identity]:
    """Of each storage; two storages of one step share one where one is the other rebuilt, or wherever nothing tells
    them apart (scratch memory of one op)."""
    ops = _op_identities(reading)
    outputs = _outputs(reading)
    found: list[Identity] = []
    numbers: Counter[Identity] = Counter()
    for storage, held in enumerate(reading.log.storages):
        if held.role is not None:
            name: Identity = (held.role, held.name)
            found.append((*name, numbers[name]))  # batches have no names, and come in the same order
            numbers[name] += 1
        else:
            found.append(_identity(reading, storage, ops, outputs))
    return found


def _identity(reading: Reading, storage: int, ops: list[Identity], outputs: dict[int, int]) -> Identity:
    held = reading.log.storages[storage]
    if held.op != NOWHERE:
        return ("made", *ops[held.op], outputs.get(storage), held.shape, held.dtype, held.size_bytes)
    if reading.category(storage) == RANDOM_STATE:
        keeper = reading.kept_for.get(storage)
        p = None if keeper is None else reading.log.passes[keeper]
        return (RANDOM_STATE, p and (p.region, p.call, p.kind))
    return ("between ops", held.shape, held.dtype, held.size_bytes)


def _outputs(reading: Reading) -> dict[int, int]:
    """Storage → its place among the results of the op that made it."""
    places: dict[int, int] = {}
    for index, op in enumerate(reading.log.ops):
        for place, storage in enumerate(op.writes):
            if reading.log.storages[storage].op == index:
                places.setdefault(storage, place)
    return places


def _op_identities(reading: Reading) -> list[Identity]:
    log = reading.log
    firsts = {(p.region, p.call): n for n, p in enumerate(log.passes) if p.kind == FIRST}
    in_pass: dict[int, dict[Identity, list[Identity]]] = {}
    seen: Counter[Identity] = Counter()
    repeated: Counter[Identity] = Counter()
    found: list[Identity] = []
    for op in log.ops:
        if op.forward_op != NOWHERE:
            kind: Identity = ("backward", op.name, found[op.forward_op])
        else:
            # Not by its line: a replay of a module of torch itself is called from torch alone.
            phase = "forward" if reading.is_replayed(op) else op.phase
            kind = (phase, op.name, op.module, tuple(log.storages[s].shape for s in op.writes))
        replay = next(iter(replays_around(log, op.region_pass)), NOWHERE)
        name: Identity | None = None
        if replay != NOWHERE:
            p = log.passes[replay]
            ran = in_pass.get(firsts.get((p.region, p.call), NOWHERE), {}).get(kind, [])
            position = repeated[(replay, kind)]
            repeated[(replay, kind)] += 1
            name = ran[position] if position < len(ran) else None
        if name is None:
            place: Identity = (op.micro_batch, replay != NOWHERE, kind)
            name = (*place, seen[place])
            seen[place] += 1
        found.append(name)
        for number in around(log, op.region_pass):
            in_pass.setdefault(number, {}).setdefault(kind, []).append(name)
    return found
