"""Which placement a study's ratios are relative to."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable

from bench.records.types import TimeSample
from bench.spec import StudySpec

PLAIN = "none"
"""Text of the placement without regions."""


def choose_reference(study: StudySpec, samples: Iterable[TimeSample], candidates: Collection[str]) -> str | None:
    """The study's own choice among `candidates`, else `none`, else the fastest that was timed, else not known yet.

    Before the fastest, one that shares rounds with more of the others: a study extended later has placements measured
    beside the sentinel alone, and one of them would leave all others without a pair.
    """
    for preferred in (study.reference, PLAIN):
        if preferred in candidates:
            return preferred
    timed: dict[str, list[TimeSample]] = defaultdict(list)
    for sample in samples:
        if sample.placement in candidates:
            timed[sample.placement].append(sample)
    rounds = {text: {(s.execution, s.round) for s in of_text} for text, of_text in timed.items()}

    def rank(text: str) -> tuple[int, float]:
        paired = sum(not rounds[text].isdisjoint(other) for other in rounds.values())
        return -paired, statistics.median(t for sample in timed[text] for t in sample.step_times_ms)

    return min(timed, key=rank, default=None)
