"""Throughput from timed samples: each point's own, and relative to `none` at its largest size, paired by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from bench.capacity.store import CapacityRecords
from bench.capacity.timing import Point
from bench.capacity.types import Throughput, TimedSample
from bench.stats import RatioEstimate, Verdict, estimate_ratio, judge

NO_REFERENCE = "none was not timed at a size of its own"


def throughputs(records: CapacityRecords, reference: Point | None, target_half_width: float) -> dict[Point, Throughput]:
    """Of every point that was timed.

    Args:
        target_half_width: the aim of the protocol, which says how far "same" reaches.
    """
    by_point: dict[Point, dict[int, TimedSample]] = {}
    for sample in records.of(TimedSample):
        by_point.setdefault(Point(sample.placement, sample.size), {})[sample.round] = sample
    of_reference = by_point.get(reference, {}) if reference is not None else {}
    return {
        point: _throughput(list(samples.values()), of_reference, point == reference, target_half_width)
        for point, samples in by_point.items()
    }


def comparable(timed: Mapping[Point, Throughput]) -> dict[Point, Throughput]:
    """Those that can be ranked together: where any was paired with `none`, the paired ones. A ratio and tokens a second
    are no two values of one thing, and neither are two unpaired times."""
    is_paired = any(throughput.relative is not None for throughput in timed.values())
    return {p: throughput for p, throughput in timed.items() if not is_paired or throughput.relative is not None}


def _throughput(
    samples: Sequence[TimedSample], reference: dict[int, TimedSample], is_reference: bool, target_half_width: float
) -> Throughput:
    per_second = estimate_ratio([[math.log(_units_per_s(sample)) for sample in samples]])
    paired = [
        math.log(_units_per_s(reference[s.round]) / _units_per_s(s)) for s in samples if s.round in reference
    ]  # time for one unit over that of `none`: below 0 is faster
    ratio = estimate_ratio([paired]) if paired else None
    verdict = _verdict(ratio, is_reference, target_half_width)
    first = samples[0]
    return Throughput(
        samples_per_step=first.num_samples,
        units_per_step=first.num_units,
        rounds=len(samples),
        step_time_ms=statistics.median(_time_ms(sample) for sample in samples),
        samples_per_s=per_second.ratio * first.num_samples / first.num_units,
        units_per_s=per_second.ratio,
        units_per_s_interval=per_second.interval,
        relative=None if ratio is None else 1 / ratio.ratio,
        relative_interval=None if ratio is None or ratio.interval is None else _inverse(ratio.interval),
        verdict=verdict.word,
        verdict_reason=verdict.reason,
    )


def _verdict(ratio: RatioEstimate | None, is_reference: bool, target_half_width: float) -> Verdict:
    if is_reference:
        return Verdict(word="same", reason="it is what the others are relative to")
    if ratio is None:
        return Verdict(word="unclear", reason=NO_REFERENCE)
    return judge(ratio, target_half_width)


def _units_per_s(sample: TimedSample) -> float:
    return sample.num_units / (_time_ms(sample) / 1e3)


def _time_ms(sample: TimedSample) -> float:
    """Median of the sample's step times."""
    return statistics.median(sample.step_times_ms)


def _inverse(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = interval
    return 1 / high, 1 / low
