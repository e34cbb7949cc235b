"""How surely a placement is on the frontier: the share of resampled studies in which it is.

The peaks are exact and stay; the rounds are drawn again. A draw takes whole rounds, the same for all placements, so a
slow moment that hit several placements stays shared. Where there are several executions, they are drawn first, and from
each as many rounds as it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bench.frontier.dominance import nondominated_rows
from bench.frontier.resample import TIE_DECIMALS, Round, draw_rounds, resampled_means
from bench.records import Records, kept_rounds
from bench.stats import MIN_PAIRS, PairedRatio


def frontier_confidence(
    records: Records,
    ratios: Mapping[str, Sequence[PairedRatio]],
    centres: Mapping[str, float],
    peaks: Mapping[str, int],
) -> dict[str, float | None]:
    """Placement → share of resamples in which no other placement of `peaks` dominates it.

    Args:
        records: give the complete rounds; a round that a kill cut short is not drawn.
        ratios: paired ratios of at least each placement in `peaks`. A study may have been extended by placements
            measured beside the reference alone: each ratio is the mean over those drawn rounds which have it, and the
            placement's mean over all of its rounds where none was drawn.
        centres: placement → logarithm of its ratio as the study states it, around which the means of draws are laid.
        peaks: valid placement → peak bytes.

    Returns:
        None for a placement with fewer than MIN_PAIRS ratios: two rounds drawn again say nothing about the next one.
    """
    placements = list(peaks)
    complete = sorted({(done.execution, done.round) for done in kept_rounds(records)})
    if not placements or not complete:
        return dict.fromkeys(placements)
    log_ratios = _table(complete, [ratios[placement] for placement in placements])
    overall = np.array([np.mean([ratio.log_ratio for ratio in ratios[placement]]) for placement in placements])
    moved = np.array([centres[placement] for placement in placements]) - overall
    means = np.round(resampled_means(draw_rounds(complete), log_ratios, overall) + moved, TIE_DECIMALS)
    kept = nondominated_rows(means, np.array([peaks[placement] for placement in placements], dtype=np.float64))
    shares = kept.mean(axis=0)
    return {
        placement: float(share) if len(ratios[placement]) >= MIN_PAIRS else None
        for placement, share in zip(placements, shares, strict=True)
    }


def _table(complete: Sequence[Round], ratios: Sequence[Sequence[PairedRatio]]) -> npt.NDArray[np.float64]:
    """Log ratios, rounds × placements; NaN where a placement was not in a round."""
    row = {key: index for index, key in enumerate(complete)}
    table = np.full((len(complete), len(ratios)), np.nan)
    for column, of_placement in enumerate(ratios):
        for ratio in of_placement:
            index = row.get((ratio.execution, ratio.round))
            if index is not None:
                table[index, column] = ratio.log_ratio
    return table
