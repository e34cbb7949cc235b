"""What replay costs: FLOPs, bytes moved, launches, random states and region calls, beside the measured extra time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.explain.passes import replays_around
from bench.explain.reading import Reading, random_states
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op


@dataclass(frozen=True, kw_only=True)
class Work:
    flops: int | None
    """None where an op has no formula."""
    moved_bytes: int
    """Read and written."""
    num_ops: int
    """Launches; views left out."""


@dataclass(frozen=True, kw_only=True)
class RegionCost:
    region: str
    first_passes: int
    replays: int
    replayed: Work
    """Of its own replays, regions inside it included: their first passes run again with it."""
    rng_saves: int
    rng_bytes: int
    """Of the random states that its first passes keep."""


@dataclass(frozen=True, kw_only=True)
class MeasuredExtra:
    """The replay's time as measured, beside what the plain step's rate would make of its FLOPs."""

    plain_ms: float
    placed_ms: float
    extra_ms: float
    at_plain_rate_ms: float | None
    """Replayed FLOPs at the plain step's FLOPs a second: an estimate. None where FLOPs are not known."""
    remainder_ms: float | None
    """What is left: memory-bound ops, launches, random states, the regions' own work, noise."""
    remainder_per_region_call_ms: float | None
    """None where no region was called."""


@dataclass(frozen=True, kw_only=True)
class ReplayCost:
    regions: tuple[RegionCost, ...]
    """The one with most FLOPs first."""
    step: Work
    """The whole step, replays included."""
    replayed: Work
    region_calls: int
    """First passes and replays: each is a call through `torch.utils.checkpoint`, or a return from it."""
    rng_saves: int
    rng_bytes: int
    measured: MeasuredExtra | None

    @property
    def flops_share(self) -> float | None:
        return _flops_share(self.step, self.replayed)


def replay_cost(reading: Reading, *, plain_ms: float | None = None, placed_ms: float | None = None) -> ReplayCost:
    """
    Args:
        plain_ms: measured step time without regions; both times or none.
        placed_ms: measured step time of this placement.
    """
    log = reading.log
    # Where one replay lies in another, the outer, which caused it.
    replayed_in = [next(reversed(replays_around(log, op.region_pass)), NOWHERE) for op in log.ops]
    replayed = _work(op for op, pass_number in zip(log.ops, replayed_in, strict=True) if pass_number != NOWHERE)
    step = _work(log.ops)
    states = random_states(reading)
    regions = tuple(dict.fromkeys(p.region for p in log.passes))
    costs = [_region_cost(reading, region, replayed_in, states) for region in regions]
    measured = None
    if plain_ms is not None and placed_ms is not None:
        measured = _measured(plain_ms, placed_ms, step, replayed, len(log.passes))
    return ReplayCost(
        regions=tuple(sorted(costs, key=lambda cost: -(cost.replayed.flops or 0))),
        step=step,
        replayed=replayed,
        region_calls=len(log.passes),
        rng_saves=sum(cost.rng_saves for cost in costs),
        rng_bytes=sum(cost.rng_bytes for cost in costs),
        measured=measured,
    )


def _region_cost(reading: Reading, region: str, replayed_in: Sequence[int], states: dict[int, list[int]]) -> RegionCost:
    passes = reading.log.passes
    kept = [s for number, held in states.items() if passes[number].region == region for s in held]
    return RegionCost(
        region=region,
        first_passes=sum(p.region == region and p.kind == FIRST for p in passes),
        replays=sum(p.region == region and p.kind == REPLAY for p in passes),
        replayed=_work(
            op
            for op, number in zip(reading.log.ops, replayed_in, strict=True)
            if number != NOWHERE and passes[number].region == region
        ),
        rng_saves=len(kept),
        rng_bytes=reading.total_bytes(kept),
    )


def _measured(plain_ms: float, placed_ms: float, step: Work, replayed: Work, region_calls: int) -> MeasuredExtra:
    share = _flops_share(step, replayed)
    at_rate = None if share is None else plain_ms * share
    extra = placed_ms - plain_ms
    remainder = None if at_rate is None else extra - at_rate
    return MeasuredExtra(
        plain_ms=plain_ms,
        placed_ms=placed_ms,
        extra_ms=extra,
        at_plain_rate_ms=at_rate,
        remainder_ms=remainder,
        remainder_per_region_call_ms=remainder / region_calls if remainder is not None and region_calls else None,
    )


def _flops_share(step: Work, replayed: Work) -> float | None:
    """Replayed FLOPs over those of the step without them."""
    if step.flops is None or replayed.flops is None or step.flops == replayed.flops:
        return None
    return replayed.flops / (step.flops - replayed.flops)


def _work(ops: Iterable[Op]) -> Work:
    ops = list(ops)
    counted = [op.flops for op in ops if op.flops is not None]
    return Work(
        flops=sum(counted) if len(counted) == len(ops) else None,
        moved_bytes=sum(op.moved_bytes for op in ops),
        num_ops=len(ops),
    )
