"""Regions that would free something at a placement's peak, each with what its replay costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.grammar import parse_placement
from bench.placement.types import Placement, PlacementError, Region
from bench.records.forecast import Forecast
from bench.spec import ChainInfo
from bench.trace.candidate import Candidate
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError

MAX_FAKE_STEPS = 8
"""Candidates that are forecast by a whole step, where the fast way cannot; the others are left out."""


def candidates(
    forecaster: Forecaster, placement: str | Placement, chains: Sequence[ChainInfo]
) -> tuple[Candidate, ...]:
    """What to try next from `placement` on: every unit, every kind of submodule in all units of a chain, all units that
    are left, and every span made longer by a unit. Only those that lower the peak, and that no other beats in both
    bytes and FLOPs; the most bytes for a FLOP first.

    Raises:
        what forecasting `placement` itself raises. A candidate that cannot be forecast is left out.
    """
    start = parse_placement(placement) if isinstance(placement, str) else placement
    before = forecaster.forecast(start)
    found: list[Candidate] = []
    fake_steps = MAX_FAKE_STEPS
    for after, new in extensions(start, chains):
        try:
            forecast = forecaster.fast(after)
        except CannotRearrangeError:
            if not fake_steps:
                continue
            fake_steps -= 1
            try:
                forecast = forecaster.by_fake_step(after)[0]
            except (PlacementError, UnsupportedPlacementError):
                continue
        except (PlacementError, UnsupportedPlacementError):
            continue
        if forecast.peak_allocated_bytes < before.peak_allocated_bytes:
            found.append(_candidate(before, forecast, new))
    return tuple(sorted(_undominated(found), key=_order))


def extensions(start: Placement, chains: Sequence[ChainInfo]) -> Iterator[tuple[Placement, tuple[Region, ...]]]:
    """(placement, its new regions), each placement once."""
    seen = {start}
    for new, replaced in _additions(start, chains):
        kept = tuple(region for region in start.regions if region != replaced)
        named = {region.units for region in kept}
        added = tuple(region for region in new if region.units not in named)
        try:
            placement = Placement(kept + added)
        except PlacementError:  # it would cross a region that is there
            continue
        if added and placement not in seen:
            seen.add(placement)
            yield placement, added


def _additions(start: Placement, chains: Sequence[ChainInfo]) -> Iterator[tuple[tuple[Region, ...], Region | None]]:
    """(new regions, the region whose place they take)."""
    for chain in chains:
        for unit in chain.units:
            yield _each([unit]), None
        for paths in chain.kinds.values():
            yield _each(f"{unit}.{path}" for unit in chain.units for path in paths), None
        touched = {unit for unit in chain.units if any(r.touches(Region(units=(unit,))) for r in start.regions)}
        yield _each(unit for unit in chain.units if unit not in touched), None
        for region in start.regions:
            if len(region.units) > 1 and region.units[-1] in chain.units[:-1]:
                following = chain.units[chain.units.index(region.units[-1]) + 1]
                longer = Region(units=(*region.units, following), keeps=region.keeps, options=region.options)
                yield (longer,), region


def _each(units: Iterable[str]) -> tuple[Region, ...]:
    return tuple(Region(units=(unit,)) for unit in units)


def _candidate(before: Forecast, after: Forecast, new: tuple[Region, ...]) -> Candidate:
    known = before.replay_flops is not None and after.replay_flops is not None
    return Candidate(
        placement=after.placement,
        region=Placement(new).text,
        freed_bytes=before.peak_allocated_bytes - after.peak_allocated_bytes,
        replay_flops=after.replay_flops - before.replay_flops if known else None,  # type: ignore[operator]
    )


def _undominated(found: Sequence[Candidate]) -> Iterator[Candidate]:
    """Equal ones stay, the first of them."""
    # freed bytes
    # │     x o      o: beaten by the x on its left, which frees as much and replays less
    # │   x   o
    # │ x
    # └────────── replayed FLOPs
    most = 0
    for one in sorted(found, key=lambda c: (_cost(c), -c.freed_bytes)):
        if one.freed_bytes > most:
            most = one.freed_bytes
            yield one


def _cost(candidate: Candidate) -> float:
    return float("inf") if candidate.replay_flops is None else candidate.replay_flops


def _order(candidate: Candidate) -> tuple[float, int]:
    """Most bytes for a FLOP first; those that cost nothing before all others, in the order of what they free."""
    cost = _cost(candidate)
    return (-candidate.freed_bytes / cost if cost > 0 else float("-inf"), -candidate.freed_bytes)
