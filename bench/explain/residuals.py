"""What forwards leave for backward: per region of a placement what it keeps, per unit of a plain step what autograd
saves. As JAX's `print_saved_residuals`, with source lines, readers, and what is shared counted once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.explain.reading import Reading, random_states
from bench.explain.tensors import OpPlace, place_of
from bench.explain.words import is_inside
from bench.trace.categories import BOUNDARY, BUFFERS, INPUTS, PARAMETERS, SAVED
from bench.trace.log import FIRST, NOWHERE

BOUNDARY_TENSOR, KEPT_OUTPUT, RNG_STATE, SAVED_TENSOR = "boundary", "kept output", "random state", "saved"
_THERE_ANYWAY = (PARAMETERS, BUFFERS, INPUTS)


@dataclass(frozen=True, kw_only=True)
class Residual:
    storage: int
    role: str
    """Of a region BOUNDARY_TENSOR, KEPT_OUTPUT or RNG_STATE, of a unit SAVED_TENSOR."""
    bytes: int
    shape: tuple[int, ...] | None
    dtype: str | None
    name: str
    """Of a parameter, buffer or batch that was taken in; empty of what the step made."""
    made_by: OpPlace | None
    read_by: tuple[OpPlace, ...]
    """Ops of backward and of replays that take it in."""
    shared_with: tuple[str, ...]
    """Other regions or units that keep it too."""
    is_there_anyway: bool
    """A parameter, a buffer or a batch: keeping it costs nothing."""


@dataclass(frozen=True, kw_only=True)
class Keeps:
    """What one call of a region, or of a unit, leaves for backward."""

    owner: str
    """Text form of the region, or path of the unit."""
    call: int
    micro_batch: int
    residuals: tuple[Residual, ...]
    """The largest first."""
    total_bytes: int
    """Each storage once, without what is there anyway."""
    shared_bytes: int
    """Of those, what others keep too."""


@dataclass(frozen=True, kw_only=True)
class Residuals:
    keeps: tuple[Keeps, ...]
    """In forward order."""
    total_bytes: int
    """Over all, each storage once."""


def region_residuals(reading: Reading) -> Residuals:
    """What each first pass of a region keeps for its replay: what it was given, outputs that its policy keeps, random
    states."""
    found: list[tuple[str, int, int, dict[int, str]]] = []
    rng = random_states(reading)
    for number, p in enumerate(reading.log.passes):
        if p.kind != FIRST:
            continue
        roles = dict.fromkeys(p.boundary, BOUNDARY_TENSOR)
        roles |= {s: KEPT_OUTPUT for s in _kept_outputs(reading, number) if s not in roles}
        roles |= dict.fromkeys(rng.get(number, ()), RNG_STATE)
        micro_batch = reading.log.phase_at(p.begin + 1).micro_batch
        found.append((p.region, p.call, micro_batch, roles))
    return _residuals(reading, found)


def unit_residuals(reading: Reading) -> Residuals:
    """What autograd saves of each unit of the chains, in a plain step: what its ops' backwards read, and what it made
    and nobody reads."""
    log = reading.log
    num_batches = 1 + max((op.micro_batch for op in log.ops), default=0)
    found: list[tuple[str, int, int, dict[int, str]]] = []
    for micro_batch in range(num_batches):
        for chain in reading.chains:
            for unit in chain.units:
                saved = _saved_by_unit(reading, unit, micro_batch)
                found.append((unit, 0, micro_batch, dict.fromkeys(saved, SAVED_TENSOR)))
    return _residuals(reading, found)


def _saved_by_unit(reading: Reading, unit: str, micro_batch: int) -> list[int]:
    log = reading.log
    saved: dict[int, None] = {}
    for op in log.ops:
        if op.phase != "backward" or op.forward_op == NOWHERE:
            continue
        forward_op = log.ops[op.forward_op]
        if forward_op.micro_batch == micro_batch and is_inside(forward_op.module, unit):
            saved.update(dict.fromkeys(s for s in op.reads if _is_from_forward(reading, s)))
    for index in range(len(log.storages)):
        maker = reading.maker(index)
        if (
            reading.category(index) == SAVED
            and maker is not None
            and maker.micro_batch == micro_batch
            and is_inside(maker.module, unit)
            and not _readers_in_backward(reading, index)
        ):
            saved[index] = None
    return list(saved)


def _is_from_forward(reading: Reading, storage: int) -> bool:
    return reading.category(storage) in (SAVED, BOUNDARY, *_THERE_ANYWAY)


def _kept_outputs(reading: Reading, number: int) -> list[int]:
    """Saved activations made inside a first pass, without what it handed out: that stays for whoever reads it next."""
    inside = _passes_within(reading, number)
    handed_out = set(reading.log.passes[number].handed_out)
    boundaries = {s for n in inside for s in reading.log.passes[n].boundary}
    return [
        index
        for index in range(len(reading.log.storages))
        if reading.category(index) == SAVED
        and (maker := reading.maker(index)) is not None
        and maker.region_pass in inside
        and index not in handed_out
        and index not in boundaries
    ]


def _passes_within(reading: Reading, number: int) -> set[int]:
    within = {number}
    for index, p in enumerate(reading.log.passes):
        if p.around in within:  # an inner pass begins after the one around it
            within.add(index)
    return within


def _readers_in_backward(reading: Reading, storage: int) -> tuple[OpPlace, ...]:
    return tuple(
        place_of(reading, reading.log.ops[op])
        for op in reading.readers.get(storage, ())
        if reading.log.ops[op].phase == "backward"
    )


def _residuals(reading: Reading, found: Iterable[tuple[str, int, int, dict[int, str]]]) -> Residuals:
    found = list(found)
    owners: dict[int, list[str]] = {}
    for owner, _, _, roles in found:
        for storage in roles:
            names = owners.setdefault(storage, [])
            if owner not in names:
                names.append(owner)
    keeps = tuple(_keeps(reading, owner, call, batch, roles, owners) for owner, call, batch, roles in found)
    counted = {r.storage: r.bytes for one in keeps for r in one.residuals if not r.is_there_anyway}
    return Residuals(keeps=keeps, total_bytes=sum(counted.values()))


def _keeps(
    reading: Reading, owner: str, call: int, micro_batch: int, roles: dict[int, str], owners: dict[int, list[str]]
) -> Keeps:
    residuals = tuple(
        sorted(
            (_residual(reading, storage, role, owner, owners[storage]) for storage, role in roles.items()),
            key=lambda r: (r.is_there_anyway, -r.bytes),
        )
    )
    costly = [r for r in residuals if not r.is_there_anyway]
    return Keeps(
        owner=owner,
        call=call,
        micro_batch=micro_batch,
        residuals=residuals,
        total_bytes=sum(r.bytes for r in costly),
        shared_bytes=sum(r.bytes for r in costly if r.shared_with),
    )


def _residual(reading: Reading, storage: int, role: str, owner: str, owners: list[str]) -> Residual:
    held, maker = reading.log.storages[storage], reading.maker(storage)
    return Residual(
        storage=storage,
        role=role,
        bytes=held.size_bytes,
        shape=held.shape,
        dtype=held.dtype,
        name=held.name,
        made_by=None if maker is None else place_of(reading, maker),
        read_by=_readers_in_backward(reading, storage),
        shared_with=tuple(other for other in owners if other != owner),
        is_there_anyway=reading.category(storage) in _THERE_ANYWAY,
    )
