"""Findings beside the headline: each looks for one thing in a log, and says what it rests on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bench.explain.peak import PeakExplanation, UnitAtPeak
from bench.explain.reading import Reading
from bench.explain.regions import RegionSaving, region_savings, wider_than
from bench.explain.words import bytes_text, count_text, in_module, join_text, share_text, tensor_text
from bench.trace.categories import BOUNDARY

SAVES_NOTHING, EARLY_LAYERS, LEAKED = "region saves nothing", "few units hold most", "leaked reference"
FRAGMENTATION, NOT_AT_PEAK = "reserved beyond allocated", "not at the peak"

LARGE_TIMES = 3.0
"""A unit that holds as many times the median unit's bytes is a large one."""
LARGE_SHARE = 0.5
"""Of what all units hold: below that the large ones are not where to look."""
UNITS_MIN = 4
"""Of fewer units the median says nothing."""
DEAD_SHARE = 0.25
"""Of what all units keep: a unit below that is not missed at the peak."""
RESERVED_SHARE = 0.1
"""Of the allocated peak."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    kind: str
    """A headline of `bench.explain.advice`, or one of the kinds above."""
    text: str
    evidence: Mapping[str, int | float | str] = field(default_factory=dict)
    """The figures that it rests on."""


def find(
    reading: Reading,
    explanation: PeakExplanation,
    *,
    has_reachable_activations: bool,
    reserved_bytes: int | None,
) -> list[Advice]:
    """
    Args:
        has_reachable_activations: whether the headline leaves it to placements to lower the peak; findings on which
            units to replay are left out otherwise.
    """
    found = [*_regions_that_save_nothing(reading), *_leaks(reading)]
    if has_reachable_activations and not reading.log.passes:
        found += [*_large_units(reading, explanation), *_dead_units(explanation)]
    if reserved_bytes is not None:
        found += _fragmentation(explanation, reserved_bytes)
    return found


def _regions_that_save_nothing(reading: Reading) -> Iterator[Advice]:
    for saving in region_savings(reading):
        if saving.net_bytes <= 0:
            wider = wider_than(reading, saving.region)
            mend = f"; a wider region may save, such as {wider}" if wider and not saving.held_bytes else ""
            yield Advice(
                kind=SAVES_NOTHING,
                text=f"region {saving.region} saves nothing: {_why(reading, saving)}{mend}.",
                evidence={
                    "region": saving.region,
                    "freed_bytes": saving.freed_bytes,
                    "duplicate_bytes": saving.duplicate_bytes,
                    "kept_bytes": saving.kept_bytes,
                    "held_bytes": saving.held_bytes,
                    "wider": wider,
                },
            )


def _why(reading: Reading, saving: RegionSaving) -> str:
    if saving.freed_bytes == 0 and saving.duplicate_bytes:
        return (
            f"the {bytes_text(saving.duplicate_bytes)} that its replay rebuilds were never gone, since what follows "
            "saves them too"
        )
    if saving.freed_bytes == 0 and saving.held_bytes:
        return (
            f"{bytes_text(saving.held_bytes)} that its forward makes stay in spite of it, held by its policy or "
            "outside autograd's saved tensors, as on the ctx of an autograd.Function"
        )
    if saving.freed_bytes == 0:
        made = [s for s in saving.boundary if reading.category(s) == BOUNDARY]
        largest = max(made, key=lambda s: reading.log.storages[s].size_bytes, default=None)
        if largest is None:
            return "its replay rebuilds nothing"
        held = reading.log.storages[largest]
        return f"its input, {tensor_text(held.shape, held.dtype)}, is all that its backward needs, so it stays"
    return (
        f"its replay rebuilds {bytes_text(saving.freed_bytes)}, and for that its inputs are kept, "
        f"{bytes_text(saving.kept_bytes)} that nothing else needs"
    )


def _leaks(reading: Reading) -> Iterator[Advice]:
    for index in sorted(reading.leaked):
        held, maker = reading.log.storages[index], reading.maker(index)
        assert maker is not None, "what leaked has a maker"
        made = "a replay" if reading.is_replayed(maker) else "the forward"
        source = reading.source_of(maker)
        until = "after the step" if held.death is None else "after its backward"
        yield Advice(
            kind=LEAKED,
            text=(
                f"{tensor_text(held.shape, held.dtype)} ({bytes_text(held.size_bytes)}), made in {made} by "
                f"{maker.name} {in_module(maker.module)}{f' ({source})' if source else ''}, is still alive {until} "
                "and nobody reads it again: something holds a reference to it."
            ),
            evidence={"bytes": held.size_bytes, "op": maker.name, "module": maker.module, "source": source},
        )


def _large_units(reading: Reading, explanation: PeakExplanation) -> Iterator[Advice]:
    order = [unit for chain in reading.chains for unit in chain.units]
    units = {one.unit: one for one in explanation.units}
    if len(order) < UNITS_MIN:
        return
    median = statistics.median(one.saved_bytes for one in units.values())
    large = [units[name] for name in order if median and units[name].saved_bytes >= LARGE_TIMES * median]
    total = sum(one.removable_bytes for one in units.values())
    held = sum(one.removable_bytes for one in large)
    if not large or not total or held < LARGE_SHARE * total:
        return
    times = min(one.saved_bytes for one in large) / median
    yield Advice(
        kind=EARLY_LAYERS,
        text=(
            f"{count_text(len(large), 'unit')} of {len(order)} ({join_text([one.unit for one in large])}) "
            f"{'holds' if len(large) == 1 else 'hold'} {bytes_text(held)} at the peak, {share_text(held, total)} of "
            f"what a placement could remove there; each keeps at least {times:.1f} times what the median unit keeps. "
            "Place regions there first."
        ),
        evidence={
            "units": " ".join(one.unit for one in large),
            "removable_bytes": held,
            "all_units_bytes": total,
            "times_median": times,
        },
    )


def _dead_units(explanation: PeakExplanation) -> Iterator[Advice]:
    total = sum(one.saved_bytes for one in explanation.units)

    def is_dead(one: UnitAtPeak) -> bool:
        return one.at_peak_bytes == 0 and one.saved_bytes > 0 and one.saved_bytes >= DEAD_SHARE * total

    for one in filter(is_dead, explanation.units):
        yield Advice(
            kind=NOT_AT_PEAK,
            text=(
                f"{one.unit} keeps {bytes_text(one.saved_bytes)} for backward, none of it at the peak: replaying it "
                "saves nothing."
            ),
            evidence={"unit": one.unit, "saved_bytes": one.saved_bytes, "at_peak_bytes": 0},
        )


def _fragmentation(explanation: PeakExplanation, reserved_bytes: int) -> Iterator[Advice]:
    beyond = reserved_bytes - explanation.peak_bytes
    if beyond >= RESERVED_SHARE * explanation.peak_bytes:
        yield Advice(
            kind=FRAGMENTATION,
            text=(
                f"the allocator has taken {bytes_text(reserved_bytes)} from the driver, {bytes_text(beyond)} more than "
                "is allocated at the peak: cached or fragmented. No placement frees that by itself; "
                "expandable_segments:True may."
            ),
            evidence={"reserved_bytes": reserved_bytes, "peak_bytes": explanation.peak_bytes},
        )
