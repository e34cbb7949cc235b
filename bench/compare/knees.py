"""The knee of a study's frontier, and how often the study with other rounds would have named another placement."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bench.compare.axes import Placed
from bench.compare.types import Knee, Share
from bench.frontier import knee_index
from bench.frontier.dominance import nondominated_rows

NUM_OTHERS = 3


def knee_stability(placed: Placed, knee: str | None) -> Knee:
    """
    Args:
        placed: the study on the relative scale.
        knee: as the study's frontier has it.
    """
    if placed.draws is None:
        return Knee(placement=knee, confidence=None, others=(), none_share=None)
    named = _named(placed)
    total = sum(named.values())
    return Knee(
        placement=knee,
        confidence=named[knee] / total,
        others=tuple(
            Share(placement=text, share=count / total)
            for text, count in named.most_common()
            if text is not None and text != knee
        )[:NUM_OTHERS],
        none_share=named[None] / total,
    )


def _named(placed: Placed) -> Counter[str | None]:
    """Placement, or None for no knee → number of resamples."""
    texts, peaks = list(placed.peaks), np.array(list(placed.peaks.values()))
    assert placed.draws is not None, "the caller has looked"
    named: Counter[str | None] = Counter()
    for times, kept in zip(placed.draws, nondominated_rows(placed.draws, peaks), strict=True):
        indices = np.flatnonzero(kept)
        knee = knee_index([(float(times[i]), float(peaks[i])) for i in indices])
        named[None if knee is None else texts[indices[knee]]] += 1
    return named
