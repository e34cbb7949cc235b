"""Rounds within executions: how much a ratio varies from round to round, and from one process to the next.

Memory layout, thread placement and code alignment are drawn once a process, so rounds of one process resemble each
other more than those of another (Kalibera and Jones 2013, "Rigorous Benchmarking in Reasonable Time", ISMM). The
variances are the one-way random-effects estimates; the spread of the overall centre is that of the hierarchical
bootstrap (Davison and Hinkley 1997, "Bootstrap Methods and their Application", 3.8): draw executions, then rounds of
each. With two executions it covers little more than the distance between them. It cannot know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NUM_RESAMPLES = 2000
SEED = 20150

Groups = Sequence[npt.NDArray[np.float64]]
"""Log ratios, one array an execution."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Standard deviations of log ratios; 0.01 is about 1 %."""

    within: float | None
    """From round to round of one execution; None with fewer than two rounds in each."""
    between: float | None
    """From execution to execution, beyond what rounds explain; None with one execution."""


def spread(groups: Groups) -> Spread:
    repeated = [group for group in groups if len(group) > 1]
    if not repeated:
        return Spread(within=None, between=None)
    degrees = sum(len(group) - 1 for group in repeated)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in repeated) / degrees
    return Spread(within=within**0.5, between=_between(groups, within))


def _between(groups: Groups, within_variance: float) -> float | None:
    num_groups = len(groups)
    if num_groups < 2:
        return None
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    means = np.array([group.mean() for group in groups])
    grand = float((sizes * means).sum() / sizes.sum())
    mean_square = float((sizes * (means - grand) ** 2).sum()) / (num_groups - 1)
    size = float(sizes.sum() - (sizes**2).sum() / sizes.sum()) / (num_groups - 1)
    return max(0.0, (mean_square - within_variance) / size) ** 0.5


def hierarchical_spread(groups: Groups, confidence: float) -> tuple[float, float]:
    """How far below and above itself the overall mean lies when executions and their rounds are drawn again (both
    ends as differences of logs, the lower one negative)."""
    generator = np.random.default_rng(SEED)
    drawn = generator.integers(0, len(groups), size=(NUM_RESAMPLES, len(groups)))
    totals, counts = np.zeros(NUM_RESAMPLES), np.zeros(NUM_RESAMPLES)
    for column in range(len(groups)):
        for index, group in enumerate(groups):
            rows = np.flatnonzero(drawn[:, column] == index)
            rounds = generator.integers(0, len(group), size=(len(rows), len(group)))
            totals[rows] += group[rounds].sum(axis=1)
            counts[rows] += len(group)
    centre = float(np.concatenate(list(groups)).mean())
    tail = (1 - confidence) / 2
    low, high = np.quantile(totals / counts - centre, [tail, 1 - tail])
    return min(0.0, float(low)), max(0.0, float(high))
