"""A study's rounds drawn again: whole rounds, the same for all placements, after the executions that they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

NUM_RESAMPLES = 2000
SEED = 20150
TIE_DECIMALS = 12
"""Logarithms closer than this are equal: sums of the same numbers may differ in their last digits."""

Array = npt.NDArray[np.float64]
Round = tuple[int, int]
"""Execution, number of the round."""


def draw_rounds(complete: Sequence[Round], seed: int | Sequence[int] = SEED) -> Array:
    """How often each round was drawn, resamples × rounds. Executions are drawn first, and from each as many rounds as
    it has.

    Args:
        complete: sorted by execution.
    """
    generator = np.random.default_rng(seed)
    sizes = list(Counter(execution for execution, _ in complete).values())
    times_drawn = generator.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=NUM_RESAMPLES)
    return np.hstack(
        [generator.multinomial(times_drawn[:, i] * size, np.full(size, 1 / size)) for i, size in enumerate(sizes)]
    ).astype(np.float64)


def resampled_means(draws: Array, table: Array, overall: Array) -> Array:
    """Resamples × placements: the mean over the drawn rounds that have the placement.

    Args:
        table: rounds × placements; NaN where a placement was not in a round.
        overall: of each placement its mean over all rounds, which stands where none was drawn that has it.
    """
    present = ~np.isnan(table)
    sums = draws @ np.where(present, table, 0.0)
    counts = draws @ present.astype(np.float64)
    means: Array = np.where(counts > 0, sums / np.maximum(counts, 1.0), overall)
    return means
