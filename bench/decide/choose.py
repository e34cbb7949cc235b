"""The placement that answers a wish, the runner-up, and how often other rounds would have given the same answer.

A budget asks for the fastest valid placement whose peak is at most that; peaks are exact, so only the order of times is
unsure. A slowdown asks for the lowest peak among those whose ratio is at most 1 + slowdown; there it is unsure which
ones are within it. Without either it is the knee. Rounds are drawn again as for the frontier.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bench.compare import RELATIVE, Measured
from bench.compare.axes import Placed, place
from bench.compare.knees import knee_stability
from bench.decide.types import (
    LEAST,
    NOTHING_FITS,
    NOTHING_MEASURED,
    PERSISTENT_EXCEEDS,
    USE,
    USE_NONE,
    Candidate,
    Recommendation,
    Wish,
)
from bench.frontier import Interval, Trial
from bench.records import PLAIN

Shares = Mapping[str | None, float]
"""Placement, or None for no answer → share of the resamples."""


def recommend(measured: Measured, wish: Wish) -> Recommendation:
    """
    Args:
        measured: a study with its records; without them nothing can be drawn again, and shares are None.

    Raises:
        ValueError: `wish` has a budget and a slowdown.
    """
    if wish.budget_bytes is not None and wish.slowdown is not None:
        raise ValueError("a wish is a budget or a slowdown, not both")
    placed = place(measured, RELATIVE, 0, None)
    trials = {trial.placement: trial for trial in measured.frontier.trials if trial.placement in placed.found}
    answer = _Answer(measured, wish, placed, trials)
    if not trials:
        return answer.of(NOTHING_MEASURED, None)
    if wish.budget_bytes is not None:
        return _within_budget(answer, wish.budget_bytes)
    if wish.slowdown is not None:
        return _within_slowdown(answer, 1 + wish.slowdown)
    return _knee(answer)


class _Answer:
    """A study placed on its axes, from which answers are put together."""

    def __init__(self, measured: Measured, wish: Wish, placed: Placed, trials: Mapping[str, Trial]) -> None:
        self.measured, self.wish, self.placed, self.trials = measured, wish, placed, trials
        self.times = {text: math.exp(found.log_time) for text, found in placed.found.items()}
        self.peaks = placed.peaks

    @property
    def persistent_bytes(self) -> int | None:
        known = [t.persistent_bytes for t in self.trials.values() if t.persistent_bytes is not None]
        return min(known, default=None)

    def drawn(self) -> Iterator[Mapping[str, float]]:
        """Times of each resample; none without rounds."""
        for row in () if self.placed.draws is None else self.placed.draws.tolist():
            yield dict(zip(self.placed.found, row, strict=True))

    def candidate(self, text: str, shares: Shares | None) -> Candidate:
        trial, span = self.trials[text], self.placed.found[text].interval
        return Candidate(
            placement=text,
            time_ratio=self.times[text],
            interval=None if span is None else Interval(low=math.exp(span[0]), high=math.exp(span[1])),
            step_time_ms=self.measured.frontier.paired_step_time_ms(trial),
            peak_allocated_bytes=round(self.peaks[text]),
            audit=trial.audit,
            share=None if shares is None else shares.get(text, 0.0),
        )

    def of(
        self,
        kind: str,
        chosen: str | None,
        shares: Shares | None = None,
        others: Sequence[str] = (),
        lowest: Candidate | None = None,
    ) -> Recommendation:
        """`others` are in the order in which they come next where resamples name nothing else."""
        named = [text for text in shares or () if text is not None and text != chosen]
        runner_up = next(iter(named or [text for text in others if text != chosen]), None)
        return Recommendation(
            kind=kind,
            study=self.measured.frontier.study,
            wish=self.wish,
            reference=self.measured.frontier.reference,
            chosen=None if chosen is None else self.candidate(chosen, shares),
            runner_up=None if runner_up is None else self.candidate(runner_up, shares),
            persistent_bytes=self.persistent_bytes,
            notes=self.measured.frontier.notes,
            lowest=lowest,
        )


def _within_budget(answer: _Answer, budget: int) -> Recommendation:
    peaks = answer.peaks
    fitting = [text for text in peaks if peaks[text] <= budget]
    if not fitting:
        persistent = answer.persistent_bytes
        exceeds = persistent is not None and persistent > budget
        lowest = min(peaks, key=lambda text: (peaks[text], answer.times[text]))
        kind = PERSISTENT_EXCEEDS if exceeds else NOTHING_FITS
        return answer.of(kind, None, lowest=answer.candidate(lowest, None))

    def fastest(times: Mapping[str, float]) -> str:
        return min(fitting, key=lambda text: (times[text], peaks[text]))

    order = sorted(fitting, key=lambda text: (answer.times[text], peaks[text]))
    if PLAIN in fitting:
        # Peaks are exact and nothing else is asked of it: whatever its rounds say, there is no need to replay.
        return answer.of(USE_NONE, PLAIN, {PLAIN: 1.0}, order)
    return answer.of(USE, order[0], _shares(fastest(times) for times in answer.drawn()), order)


def _within_slowdown(answer: _Answer, limit: float) -> Recommendation:
    def lowest(times: Mapping[str, float]) -> str | None:
        within = [text for text in times if times[text] <= limit]
        return min(within, key=lambda text: (answer.peaks[text], times[text]), default=None)

    chosen = lowest(answer.times)
    shares = _shares(lowest(times) for times in answer.drawn())
    within = [text for text in answer.times if answer.times[text] <= limit]
    order = sorted(within, key=lambda text: (answer.peaks[text], answer.times[text]))
    return answer.of(USE_NONE if chosen == PLAIN else USE, chosen, shares, order)


def _knee(answer: _Answer) -> Recommendation:
    frontier, knee = answer.placed.frontier, answer.measured.frontier.knee
    stability = knee_stability(answer.placed, knee)
    shares: dict[str | None, float] | None = None
    if stability.confidence is not None:
        shares = {knee: stability.confidence} | {other.placement: other.share for other in stability.others}
    if knee is not None:
        return answer.of(USE, knee, shares, [text for text in reversed(frontier) if text != knee])
    # As long as a frontier has a point or two, its lowest peak is what one came for.
    lowest = frontier[0]
    drawn = _shares(min(times, key=lambda text: (answer.peaks[text], times[text])) for times in answer.drawn())
    return answer.of(USE_NONE if lowest == PLAIN else LEAST, lowest, drawn, frontier[1:])


def _shares(answers: Iterator[str | None]) -> dict[str | None, float] | None:
    """The most frequent first; None where nothing was drawn."""
    counted = Counter(answers)
    total = sum(counted.values())
    return {text: count / total for text, count in counted.most_common()} if total else None
