"""The search for the largest size that fits: a pure function from what is known of one placement to what to do next.

Forecasts bracket the answer, probes settle it: it is settled when a size fits and the next one does not. With exact
forecasts that takes two probes. A forecast that is off by a share is put right by the first probe that it is held
against, so that it takes three or four. Without forecasts the size doubles until one does not fit, and the bracket is
closed along the line through the measured peaks, or by halves where that gets nowhere.

Nothing is claimed of a size that was not probed. Where memory does not grow with size, the largest size that was seen
to fit is the answer if the next one does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from bench.capacity.bracket import Curve, predicted
from bench.capacity.sizes import Sizes
from bench.capacity.types import (
    AT_BOUND,
    DATA_ENDS,
    DOES_NOT_FIT,
    FAILED,
    FITS,
    NO_PROOF,
    NONE_FITS,
    NOT_TRIED,
    SETTLED,
)

BROKEN, DEAR = ("error", "crashed"), ("timeout", "hung")
"""Outcomes that say nothing of memory and that a smaller size may not have. After a dear one no size is tried once
anything fits."""
ENDS_HERE = ("leaking", "no-step", "no-effect", "unsupported")
"""Outcomes that the placement has at any size, so that no other is tried."""
FAILURES = (*BROKEN, *DEAR, *ENDS_HERE)
MAX_FORECAST_SIZES = 40
"""Sizes that forecasts are asked for before probes go on without more."""
NUM_QUICK = 4
"""Probes of one placement by prediction; later ones halve what is left."""
LEAST_OVER = 1.01
"""Times the limit: what a step that ran out of memory is taken to need, where its forecast was within the limit."""
GROWTH_UNSEEN = 2
"""Without a forecast a size is at most so many times the largest that fits."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Of one probed size."""

    outcome: str
    """One of PROBE_OUTCOMES."""
    peak_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """All that is known of one placement."""

    sizes: Sizes
    start: int
    """The size in the controls as asked."""
    limit_bytes: int
    """What a peak must not exceed."""
    expected: Mapping[int, int | None]
    """Size → forecast bytes; None where it was asked for and there is none."""
    probed: Mapping[int, Known]
    """Size → what its last probe found."""

    @cached_property
    def start_index(self) -> int:
        return max(0, self.sizes.at_most(self.start))

    @cached_property
    def outcomes(self) -> dict[int, str]:
        """By index; sizes that are not on the axis are left out."""
        return {self.sizes.at_most(s): known.outcome for s, known in self.probed.items() if self.sizes.has(s)}

    @cached_property
    def low(self) -> int:
        """Index of the largest size that was probed and fits; -1 where none does."""
        return max((index for index, outcome in self.outcomes.items() if outcome == FITS), default=-1)

    @cached_property
    def high(self) -> int:
        """Index of the smallest size above `low` that was probed and is no fit; the number of sizes where none is."""
        above = [i for i, outcome in self.outcomes.items() if i > self.low and outcome != FITS]
        return min(above, default=self.sizes.count)

    @cached_property
    def has_forecasts(self) -> bool:
        """Whether forecasts were asked for and there is one, or were not asked for yet."""
        return not self.expected or any(value is not None for value in self.expected.values())


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Forecasts at these sizes."""

    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Try:
    """A probe at this size."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Done:
    ended: str
    """One of ENDS."""
    largest: int | None
    next_size: int | None
    """The smallest size above that was tried; None at the bound."""


Next = Ask | Try | Done


def next_step(search: Search) -> Next:
    """Forecasts before probes; a probe only where its very size was forecast, if it can be."""
    ended = _ended(search)
    if ended is not None:
        sizes = search.sizes
        return Done(
            ended=ended,
            largest=sizes[search.low] if search.low >= 0 else None,
            next_size=sizes[search.high] if search.high < sizes.count else None,
        )
    index = _candidate(search)
    unasked = _to_forecast(search, index)
    if unasked:
        return Ask(sizes=tuple(search.sizes[i] for i in unasked))
    return Try(size=search.sizes[index])


def _ended(search: Search) -> str | None:
    low, high, outcomes = search.low, search.high, search.outcomes
    ends_it = ENDS_HERE if low < 0 else (*ENDS_HERE, *DEAR)
    if any(outcome in ends_it for index, outcome in outcomes.items() if index > low):
        return FAILED  # below what fits it says nothing of how far memory reaches
    if low == search.sizes.count - 1:
        return AT_BOUND
    if low < 0 and outcomes.get(search.start_index) in FAILURES:
        return FAILED  # where the step is known to run, unless this placement breaks it
    if high != low + 1 or high == search.sizes.count:
        return None
    if outcomes[high] == DOES_NOT_FIT:
        return SETTLED if low >= 0 else NONE_FITS
    if outcomes[high] in FAILURES:
        return FAILED
    if outcomes[high] == DATA_ENDS:
        return DATA_ENDS if low >= 0 else FAILED
    return NO_PROOF


def _candidate(search: Search) -> int:
    """Index of the size to probe next, between the bounds known so far."""
    low, high, count = search.low, search.high, search.sizes.count
    first, last = low + 1, high - 1
    guess = _predicted(search)
    num_probes = len(search.outcomes)
    if low < 0 and high < count and search.outcomes[high] in (*FAILURES, DATA_ENDS):
        # No matter of memory, so prediction does not help: go to where the step is known to run, then halve.
        guess = search.start_index if search.start_index < high else high // 2
    elif high < count and search.outcomes[high] in (*FAILURES, DATA_ENDS, NOT_TRIED):
        guess = min(guess, (low + high) // 2)
    elif num_probes >= NUM_QUICK:
        guess = (low + high) // 2 if high < count else max(guess, low + 2 ** (num_probes - NUM_QUICK + 1))
    if high == count and low >= 0 and not _is_forecast(search):
        guess = min(guess, search.sizes.at_most(GROWTH_UNSEEN * search.sizes[low]))
    return min(max(guess, first), last)


def _predicted(search: Search) -> int:
    """Index of the largest size that should fit by forecasts, put right by probes; -1 where none should."""
    guess = predicted(_curve(search), search.sizes, search.limit_bytes)
    return search.start_index if guess is None else guess


def _curve(search: Search) -> Curve:
    sizes = search.sizes
    expected = {sizes.at_most(s): value for s, value in search.expected.items() if sizes.has(s)}
    forecast = {index: value for index, value in expected.items() if value is not None}
    measured = {
        sizes.at_most(s): known.peak_bytes
        for s, known in search.probed.items()
        if sizes.has(s) and known.peak_bytes is not None
    }
    ratios = {index: peak / forecast[index] for index, peak in measured.items() if forecast.get(index)}
    for index, outcome in search.outcomes.items():
        if outcome == DOES_NOT_FIT and index not in measured and forecast.get(index):
            least = LEAST_OVER * search.limit_bytes  # it ran out of memory, so how much it needs was not seen
            ratios[index] = max(forecast[index], least) / forecast[index]
    corrected = {index: value * _nearest(ratios, index) for index, value in forecast.items()}
    unseen = {index for index, outcome in search.outcomes.items() if outcome != FITS and index not in measured}
    over = {index for index in unseen if index not in ratios}
    if forecast:
        over |= {index for index, value in expected.items() if value is None and index not in measured}
    return Curve(
        bytes={i: value for i, value in (corrected | measured).items() if i not in over},
        over=frozenset(over),
    )


def _nearest(ratios: Mapping[int, float], index: int) -> float:
    """Measured over forecast at the probed size that is nearest; 1 where nothing was held against a forecast."""
    return ratios[min(ratios, key=lambda known: abs(known - index))] if ratios else 1.0


def _is_forecast(search: Search) -> bool:
    return any(value is not None for value in search.expected.values())


def _to_forecast(search: Search, index: int) -> list[int]:
    """Indices of sizes whose forecasts must come before a probe at `index`."""
    sizes = search.sizes
    if not search.has_forecasts or len(search.expected) >= MAX_FORECAST_SIZES:
        return []
    if not search.expected:  # two sizes make a line
        second = max(search.start_index, sizes.at_most(2 * sizes[search.start_index]))
        return sorted({search.start_index, second})
    wanted = [index] if search.probed else [index, index + 1]
    return [i for i in wanted if i < sizes.count and sizes[i] not in search.expected]
