"""The high-water mark of a step: the moment, everything alive there, and what a placement could still remove."""

from __future__ import annotations

from dataclasses import dataclass

from bench.explain.modules import ModuleRow, module_rows
from bench.explain.reading import ACTIVATIONS, Reading
from bench.explain.tensors import OpPlace, TensorEntry, TensorGroup, entries, entry, group, place_of
from bench.explain.words import common_module, is_inside
from bench.trace.categories import BOUNDARY, SAVED, CategoryBytes, at_peak
from bench.trace.log import NOWHERE


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When the high-water mark was reached first."""

    event: int
    """Allocations and releases that had happened."""
    phase: str
    micro_batch: int
    op: OpPlace | None
    """That was running, or had last run; None before the first."""
    is_running: bool
    """Whether it was reached inside that op, and not after it."""
    allocated: TensorEntry | None
    """What was allocated last; None where the peak is what was there before the step."""


@dataclass(frozen=True, kw_only=True)
class UnitAtPeak:
    """What one unit's forward leaves for backward."""

    unit: str
    chain: str
    saved_bytes: int
    """Made in it by the forward and kept past that (saved activations, boundary tensors), whenever that is released."""
    at_peak_bytes: int
    """Of saved and rebuilt activations made in it, what is alive at the peak."""
    removable_bytes: int
    """Of that, what the op that runs there does not take in: no region frees more of it at the peak."""


@dataclass(frozen=True, kw_only=True)
class PeakExplanation:
    model: str
    placement: str
    device: str
    is_fake: bool
    """Whether kernels and allocator were predicted."""
    peak_bytes: int
    persistent_bytes: int
    """There before the step: parameters, buffers, optimizer state, batches."""
    moment: Moment
    categories: tuple[CategoryBytes, ...]
    """All of them; they add up to the peak."""
    modules: tuple[ModuleRow, ...]
    groups: tuple[TensorGroup, ...]
    """Everything alive, equal layers together, the largest first."""
    tensors: tuple[TensorEntry, ...]
    """Everything alive, the largest first."""
    activation_bytes: int
    """Saved activations, boundary tensors and random states at the peak."""
    removable_bytes: int
    """Of those, what some region could replay and what the op that runs does not take in: no placement that runs this
    op at such a moment saves more, since the op finds all the rest there."""
    units: tuple[UnitAtPeak, ...]
    """The one with most to remove at the peak first; last the one that holds most elsewhere and nothing there."""

    @property
    def movable_bytes(self) -> int:
        """What is not there before the step."""
        return self.peak_bytes - self.persistent_bytes

    def bytes_of(self, *categories: str) -> int:
        return sum(one.bytes for one in self.categories if one.category in categories)


def explain(reading: Reading) -> PeakExplanation:
    """
    Raises:
        CategoriesDoNotAddUpError: the log is broken.
    """
    log = reading.log
    peak = at_peak(log, reading.classes)
    alive = log.alive_at(peak.at_event)
    tensors = entries(reading, alive, peak.at_event)
    return PeakExplanation(
        model=log.model,
        placement=log.placement,
        device=log.device,
        is_fake=log.is_fake,
        peak_bytes=peak.peak_bytes,
        persistent_bytes=log.persistent_bytes,
        moment=moment_at(reading, peak.at_event),
        categories=peak.categories,
        modules=module_rows(reading, alive),
        groups=group(tensors),
        tensors=tensors,
        activation_bytes=peak.bytes_of(*ACTIVATIONS),
        removable_bytes=reading.total_bytes(removable_at(reading, peak.at_event)),
        units=_units(reading, peak.at_event),
    )


def removable_at(reading: Reading, events: int) -> list[int]:
    """Activations alive at a moment that a placement could do without there. What leaked is not one of them: a replay
    would make it again."""
    running = reading.running(events)
    needed = set(reading.log.ops[running].reads) if running != NOWHERE else set()
    return [
        storage
        for storage in reading.log.alive_at(events)
        if reading.category(storage) in ACTIVATIONS
        and storage not in needed
        and storage not in reading.leaked
        and _is_replayable(reading, storage)
    ]


def _is_replayable(reading: Reading, storage: int) -> bool:
    """Whether some region can hold what makes a tensor and all that reads it for backward: one of units, or of a module
    beside them (a stem, a head of several layers)."""
    module = reading.module_of(storage)
    if is_in_unit(reading, module):
        return True
    ops = (reading.log.ops[op] for op in reading.readers.get(storage, ()))
    around = common_module([module, *(op.module for op in ops if op.forward_op != NOWHERE)])
    return bool(around) and not any(is_inside(unit, around) for chain in reading.chains for unit in chain.units)


def is_in_unit(reading: Reading, module: str) -> bool:
    """Whether a module lies in a unit of the chains; without chains, whether there is a module at all."""
    if not reading.chains:
        return bool(module)
    return any(is_inside(module, unit) for chain in reading.chains for unit in chain.units)


def moment_at(reading: Reading, events: int) -> Moment:
    log = reading.log
    running, last = reading.running(events), log.op_at(events)
    op = log.ops[last] if last != NOWHERE else None
    mark = log.phase_at(events) if log.phases else None
    newest = log.events[events - 1] if events else 0
    return Moment(
        event=events,
        phase=mark.phase if mark else "",
        micro_batch=mark.micro_batch if mark else 0,
        op=None if op is None else place_of(reading, op),
        is_running=running != NOWHERE,
        allocated=entry(reading, newest - 1, events) if newest > 0 else None,
    )


def _units(reading: Reading, events: int) -> tuple[UnitAtPeak, ...]:
    alive, removable = set(reading.log.alive_at(events)), set(removable_at(reading, events))
    found: list[UnitAtPeak] = []
    for chain in reading.chains:
        for unit in chain.units:
            inside = [
                index
                for index in range(len(reading.log.storages))
                if reading.category(index) in (SAVED, BOUNDARY) and is_inside(reading.module_of(index), unit)
            ]
            first_run = [index for index in inside if not reading.is_rebuilt(index)]
            found.append(
                UnitAtPeak(
                    unit=unit,
                    chain=chain.name,
                    saved_bytes=reading.total_bytes(first_run),
                    at_peak_bytes=reading.total_bytes(alive.intersection(inside)),
                    removable_bytes=reading.total_bytes(removable.intersection(inside)),
                )
            )
    return tuple(sorted(found, key=lambda one: (-one.removable_bytes, -one.at_peak_bytes, one.saved_bytes)))
