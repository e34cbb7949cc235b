"""Studies to a comparison. Each keeps its own frontier: two control keys never share one, they stand side by side."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from bench.compare.attained import at_budgets, stretches, wins
from bench.compare.axes import Axes, Placed, hypervolume_draws, place, plain_peak, plane
from bench.compare.contest import joint_target
from bench.compare.differences import difference_words, unlike_words
from bench.compare.estimates import valid_trials
from bench.compare.indicators import epsilon_multiplicative
from bench.compare.knees import knee_stability
from bench.compare.notes import comparison_notes
from bench.compare.types import (
    ABSOLUTE,
    RELATIVE,
    SCALES,
    Against,
    Comparison,
    Entrant,
    Measured,
    Pairing,
    ReferencePoint,
    SharedPeak,
)
from bench.frontier import PEAK_RATIO_BOUND, TIME_RATIO_BOUND, Interval
from bench.frontier.resample import NUM_RESAMPLES
from bench.stats.estimate import CONFIDENCE

DEFAULT_SHARES = (0.4, 0.6, 0.8)
DEFAULT_TARGET = 0.02
"""Half-width that a study aimed at, where its controls do not say."""
REFERENCE_POINT = ReferencePoint(time_ratio=TIME_RATIO_BOUND, peak_ratio=PEAK_RATIO_BOUND)


def compare(studies: Sequence[Measured], name: str, shares: Sequence[float] = DEFAULT_SHARES) -> Comparison:
    """Every study after the first against the first.

    Args:
        studies: at least two; the first is the baseline.
        name: of the comparison.
        shares: memory budgets as shares of the peak of `none`: on the relative scale of each study's own, on the
            absolute one of the baseline's.

    Raises:
        ValueError: fewer than two studies, or a share that is not above 0.
    """
    if len(studies) < 2:
        raise ValueError(f"a comparison takes two studies or more, got {len(studies)}")
    if any(not share > 0 for share in shares):
        raise ValueError(f"budgets are shares above 0 of the peak of none, got {list(shares)}")
    shares = sorted(set(shares))
    sides = [_Side(measured, index) for index, measured in enumerate(studies)]
    axes = {RELATIVE: Axes(time=1.0, peak=1.0), ABSOLUTE: sides[0].absolute_axes()}
    entrants = tuple(side.entrant(axes) for side in sides)
    pairings = tuple(_pairing(sides[0], side, axes, shares) for side in sides[1:])
    return Comparison(
        name=name,
        studies=entrants,
        pairings=pairings,
        reference_point=REFERENCE_POINT,
        resamples=NUM_RESAMPLES,
        notes=comparison_notes(studies, entrants, pairings),
    )


def label_of(index: int) -> str:
    """`A` to `Z`, then `AA` …"""
    letters = string.ascii_uppercase
    return letters[index] if index < len(letters) else label_of(index // len(letters) - 1) + letters[index % 26]


class _Side:
    """A study and its places on both scales, worked out once."""

    def __init__(self, measured: Measured, index: int) -> None:
        self.measured = measured
        self.label = label_of(index)
        self.plain_bytes, self.plain_is_forecast = plain_peak(measured)
        self.placed: dict[str, Placed] = {scale: place(measured, scale, index, self.plain_bytes) for scale in SCALES}

    @property
    def target_half_width(self) -> float:
        value = self.measured.frontier.controls.get("protocol.target_half_width")
        return value if isinstance(value, float) else DEFAULT_TARGET

    def absolute_axes(self) -> Axes | None:
        """The time of the reference, and the peak of `none`."""
        estimate = self.placed[ABSOLUTE].found.get(self.measured.frontier.reference or "")
        if estimate is None or not self.plain_bytes:
            return None
        return Axes(time=math.exp(estimate.log_time), peak=float(self.plain_bytes))

    def entrant(self, axes: dict[str, Axes | None]) -> Entrant:
        frontier, study = self.measured.frontier, self.measured.study
        trials = valid_trials(self.measured)
        return Entrant(
            label=self.label,
            study=frontier.study,
            key=frontier.key,
            model=frontier.model,
            device=frontier.device,
            reference=frontier.reference,
            plain_peak_bytes=self.plain_bytes,
            plain_is_forecast=self.plain_is_forecast,
            executions=max((trial.executions for trial in trials), default=0),
            rounds=max((trial.rounds for trial in trials), default=0),
            has_rounds=self.measured.records is not None,
            drift=frontier.drift,
            git_commit=study.recorded.get("git_commit") if study is not None else None,
            knee=knee_stability(self.placed[RELATIVE], frontier.knee),
            relative=plane(self.placed[RELATIVE], axes[RELATIVE], REFERENCE_POINT),
            absolute=plane(self.placed[ABSOLUTE], axes[ABSOLUTE], REFERENCE_POINT),
        )


def _pairing(baseline: _Side, candidate: _Side, axes: dict[str, Axes | None], shares: Sequence[float]) -> Pairing:
    first, second = baseline.measured.frontier, candidate.measured.frontier
    return Pairing(
        label=candidate.label,
        same_key=first.key == second.key,
        differences=difference_words(first.controls, second.controls),
        unlike=unlike_words(first.controls, second.controls),
        shared_peaks=_shared_peaks(baseline.measured, candidate.measured),
        relative=_against(baseline, candidate, RELATIVE, axes[RELATIVE], [(share, share) for share in shares], ""),
        absolute=_against(
            baseline,
            candidate,
            ABSOLUTE,
            axes[ABSOLUTE],
            [(share, float(round(share * baseline.plain_bytes))) for share in shares if baseline.plain_bytes],
            drift_text(baseline) or drift_text(candidate),
        ),
    )


def drift_text(side: _Side) -> str:
    """Why milliseconds of a study are not one number, where they are not; its ratios are paired, and hold."""
    drift = side.measured.frontier.drift
    if not drift:
        return ""
    return f"{side.label}'s machine drifted: the step time of its reference changed by {100 * drift:.0f} %"


def _against(
    baseline: _Side,
    candidate: _Side,
    scale: str,
    axes: Axes | None,
    budgets: Sequence[tuple[float, float]],
    unsteady: str,
) -> Against:
    first, second = baseline.placed[scale], candidate.placed[scale]
    target = joint_target(baseline.target_half_width, candidate.target_half_width)
    parts = stretches(first, second, target, unsteady)
    ratio, interval = _hypervolume_ratio(first, second, axes, scale)
    fronts = [[(math.exp(p.found[t].log_time), p.peaks[t]) for t in p.frontier] for p in (first, second)]
    return Against(
        hypervolume_ratio=ratio,
        hypervolume_interval=interval,
        candidate_epsilon=epsilon_multiplicative(fronts[1], fronts[0]),
        baseline_epsilon=epsilon_multiplicative(fronts[0], fronts[1]),
        budgets=at_budgets(first, second, budgets, target, unsteady),
        stretches=parts,
        wins=wins(parts),
    )


def _hypervolume_ratio(
    first: Placed, second: Placed, axes: Axes | None, scale: str
) -> tuple[float | None, Interval | None]:
    """The candidate's area over the baseline's, with percentiles of the ratio over resamples of both.

    Milliseconds get none: rounds of a session resemble each other, and drawing them as if they did not would promise
    too much.
    """
    areas = [plane(placed, axes, REFERENCE_POINT).hypervolume for placed in (first, second)]
    if axes is None or not areas[0] or areas[1] is None:
        return None, None
    ratio = areas[1] / areas[0]
    if scale != RELATIVE:
        return ratio, None
    drawn = [hypervolume_draws(placed, axes, REFERENCE_POINT) for placed in (first, second)]
    if drawn[0] is None or drawn[1] is None or not drawn[0].all():
        return ratio, None
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(value) for value in np.quantile(drawn[1] / drawn[0], [tail, 1 - tail]))
    return ratio, Interval(low=min(low, ratio), high=max(high, ratio))


def _shared_peaks(baseline: Measured, candidate: Measured) -> tuple[SharedPeak, ...]:
    theirs = {trial.placement: trial.peak_allocated_bytes for trial in valid_trials(candidate)}
    return tuple(
        SharedPeak(placement=trial.placement, baseline_bytes=mine, candidate_bytes=their)
        for trial in valid_trials(baseline)
        if (mine := trial.peak_allocated_bytes) is not None and (their := theirs.get(trial.placement)) is not None
    )
