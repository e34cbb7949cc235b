"""The series of a study in the order of time: each placement's ratio over rounds, and the sentinel's own step time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bench.frontier.steadiness import CLASSES, FLAT, UNKNOWN, UNSTEADY, Steadiness, classify
from bench.records import Records, TimeSample, kept_samples
from bench.spec import StudySpec
from bench.stats import PairedRatio, sample_time_ms

WORST_FIRST = (UNSTEADY, "slowing", "warming", FLAT, UNKNOWN)
assert set(WORST_FIRST) == set(CLASSES)


def ratio_steadiness(ratios: Iterable[PairedRatio], tolerance: float) -> Steadiness:
    """How a placement's ratio went over the rounds; the worst of all executions, except that it is `unsteady` only
    where it was never steady in any."""
    return _worst(_by_execution((ratio.execution, ratio.log_ratio) for ratio in ratios), tolerance)


def time_steadiness(samples: Iterable[TimeSample], tolerance: float) -> Steadiness:
    """The same of one placement's step times themselves."""
    return _worst(_time_logs(samples), tolerance)


def steadiness_text(steadiness: Steadiness) -> str:
    """Why a ratio is not one number."""
    change = f"by {100 * math.expm1(steadiness.change):.0f} %"
    if steadiness.word == UNSTEADY:
        return f"its time over the reference's never settled: it changed {change} as late as {_when(steadiness)}"
    return f"its time over the reference's was {steadiness.word}: it changed {change} until {_when(steadiness)}"


def unsteady_text(steadiness: Steadiness) -> str:
    """The same where nothing can be decided, else empty."""
    return "" if steadiness.word in (FLAT, UNKNOWN) else steadiness_text(steadiness)


def reference_drift(study: StudySpec, records: Records, reference: str | None) -> float | None:
    """Share by which the reference's step time changed its level in an execution, the largest; None if not to be
    seen."""
    if reference is None:
        return None
    tolerance = study.controls.protocol.target_half_width
    samples = (sample for sample in kept_samples(records) if sample.placement == reference)
    classes = [classify(logs, tolerance) for logs in _time_logs(samples).values()]
    known = [math.expm1(found.change) for found in classes if found.word != UNKNOWN]
    return max(known, default=None)


def _worst(by_execution: Mapping[int, Sequence[float]], tolerance: float) -> Steadiness:
    classes = [classify(logs, tolerance) for logs in by_execution.values()]
    if not all(found.word == UNSTEADY for found in classes):
        classes = [found for found in classes if found.word != UNSTEADY]
    return min(classes, key=lambda found: WORST_FIRST.index(found.word), default=Steadiness(word=UNKNOWN, change=0.0))


def _time_logs(samples: Iterable[TimeSample]) -> dict[int, list[float]]:
    return _by_execution((sample.execution, math.log(sample_time_ms(sample))) for sample in samples)


def _by_execution(values: Iterable[tuple[int, float]]) -> dict[int, list[float]]:
    grouped: dict[int, list[float]] = defaultdict(list)
    for execution, value in values:
        grouped[execution].append(value)
    return grouped


def _when(steadiness: Steadiness) -> str:
    return f"after {steadiness.last_change or 0} of {steadiness.length} rounds"
