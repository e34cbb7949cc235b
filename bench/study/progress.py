"""How far a study is, from its records as they come."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bench.records import MemorySample, OutcomeRecord, Record, Records, RoundDiscarded, Starting, Stopped, TimeSample
from bench.spec import StudySpec

STAGES = {
    "build": "building the step",
    "first-step": "first step",
    "audit": "auditing the replay",
    "memory": "memory",
    "warmup": "warming up",
    "time": "time",
}


@dataclass(frozen=True, kw_only=True)
class Progress:
    done: int
    """Samples and memory passes there are."""
    total: int
    """As many as there can be: fewer where ratios get tight early."""
    label: str
    seconds_left: float | None
    """At the pace so far, and within the time cap; None before there is a pace."""
    message: str | None = None
    """A line that must not be overwritten, such as a failure."""


Watch = Callable[[Progress], None]


class ProgressTracker:
    """Turns records into Progress."""

    def __init__(
        self, study: StudySpec, records: Records, watch: Watch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._study = study
        self._watch = watch
        self._taken: Counter[tuple[int, str]] = Counter()
        """Samples and memory passes by execution and placement."""
        self._settled: set[tuple[int, str]] = set()
        self._label = "starting a worker"
        self._durations: list[float] = []
        self._last_start: float | None = None
        self._stage: str | None = None
        for record in records.entries:
            self._count(record)
        self._stage = self._last_start = None  # what comes next is of another process
        self._clock, self._began = clock, clock()
        self._audits_s = 0.0
        """Since then: audits take nothing from the time cap."""

    def extend(self, study: StudySpec) -> None:
        """The study has more placements now."""
        self._study = study

    def see(self, record: Record) -> None:
        if self._stage == "audit" and self._last_start is not None:
            self._audits_s += record.unix_time_s - self._last_start
        message = self._count(record)
        self._watch(
            Progress(
                done=self._taken.total(),
                total=self._total(),
                label=self._label,
                seconds_left=self._seconds_left(),
                message=message,
            )
        )

    def _count(self, record: Record) -> str | None:
        self._stage = None
        if isinstance(record, Starting):
            self._stage = record.stage
            self._last_start = record.unix_time_s
            place = f"round {record.round + 1}" if record.round is not None else STAGES.get(record.stage, record.stage)
            self._label = f"{place}: {record.placement}" if record.placement else place
        elif isinstance(record, (MemorySample, TimeSample)):
            self._taken[record.execution, record.placement] += 1
            if self._last_start is not None:
                self._durations.append(record.unix_time_s - self._last_start)
        elif isinstance(record, OutcomeRecord):
            executions = range(self._study.controls.protocol.executions)
            self._settled |= {(execution, record.placement) for execution in executions}
            return f"{record.placement}: {record.outcome}: {record.reason}"
        elif isinstance(record, RoundDiscarded):
            return f"round {record.round + 1} is measured again: {record.reason}"
        elif isinstance(record, Stopped):
            self._settled |= {(record.execution, placement) for placement in record.placements}
        return None

    def _total(self) -> int:
        protocol = self._study.controls.protocol
        trials = [(e, entry.text) for e in range(protocol.executions) for entry in self._study.placements]
        full = 1 + protocol.rounds_max
        return sum(self._taken[t] if t in self._settled else max(full, self._taken[t]) for t in trials)

    def _seconds_left(self) -> float | None:
        if not self._durations:
            return None
        pace = statistics.fmean(self._durations[-3 * len(self._study.placements) :])
        left = (self._total() - self._taken.total()) * pace
        cap = self._study.caps.time_cap_s
        return left if cap is None else min(left, max(0.0, cap - (self._clock() - self._began - self._audits_s)))
