"""Time samples to ratios, paired with the reference measured in the same round.

Only such pairs share the machine's state, so a slow hour or a throttled clock cancels out of them. Rounds of an
execution are numbered through, whatever processes measured them, so execution and number name one round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from bench.records import TimeSample
from bench.stats.estimate import RatioEstimate, estimate_ratio


@dataclass(frozen=True, kw_only=True)
class PairedRatio:
    execution: int
    round: int
    log_ratio: float
    """Natural logarithm of the placement's sample time over the reference's; 0.0 for the reference itself."""


def paired_ratios(samples: Iterable[TimeSample], reference: str) -> dict[str, tuple[PairedRatio, ...]]:
    """Placement → its ratios in the order of the samples. A sample whose round lacks the reference gives none.

    Raises:
        ValueError: a sample has no positive step time.
    """
    samples = tuple(samples)
    reference_ms = {_round(sample): sample_time_ms(sample) for sample in samples if sample.placement == reference}
    ratios: dict[str, list[PairedRatio]] = {}
    for sample in samples:
        paired_with_ms = reference_ms.get(_round(sample))
        if paired_with_ms is not None:
            log_ratio = math.log(sample_time_ms(sample) / paired_with_ms)
            ratio = PairedRatio(execution=sample.execution, round=sample.round, log_ratio=log_ratio)
            ratios.setdefault(sample.placement, []).append(ratio)
    return {placement: tuple(of_placement) for placement, of_placement in ratios.items()}


def estimate_paired(ratios: Iterable[PairedRatio]) -> RatioEstimate | None:
    """The ratio over all rounds and executions; None where nothing was paired."""
    groups: dict[int, list[float]] = {}
    for ratio in ratios:
        groups.setdefault(ratio.execution, []).append(ratio.log_ratio)
    return estimate_ratio(list(groups.values())) if groups else None


def sample_time_ms(sample: TimeSample) -> float:
    """Median of the sample's step times."""
    if not sample.step_times_ms or min(sample.step_times_ms) <= 0:
        raise ValueError(
            f"time sample of {sample.placement} in round {sample.round} of process {sample.process}: "
            f"step_times_ms must be positive, found {list(sample.step_times_ms)}"
        )
    return statistics.median(sample.step_times_ms)


def _round(sample: TimeSample) -> tuple[int, int]:
    return sample.execution, sample.round
