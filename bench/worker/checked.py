"""Forecasts of many placements: the fast way for all, and whole steps on fake tensors where they matter most."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bench.records import Forecast, Forecasts
from bench.records.forecast import CHECKED, FAKE, REARRANGED
from bench.trace.log import StepLog
from bench.trace.rearrange import CannotRearrangeError
from bench.worker.failure import outcome_of

NUM_CHECKED = 3
"""Placements of the forecast frontier that are held against a whole step, those with the least memory first."""
Roofline = Callable[[StepLog], float]
"""Milliseconds that a step takes at least."""


class Forecaster(Protocol):
    """`bench.trace.forecast.Forecaster`, as far as it is used here."""

    def by_fake_step(self, placement: str) -> tuple[Forecast, StepLog]: ...

    def fast(self, placement: str) -> Forecast: ...


class Forecasting:
    """What one process finds out of the placements of one model."""

    def __init__(self, forecaster: Forecaster, roofline: Roofline | None = None) -> None:
        self._forecaster = forecaster
        self._roofline = roofline
        self._missing: dict[str, str] = {}
        self.roofline_ms: dict[str, float] = {}
        """Placement → step time by roofline, of those that a whole step was run of."""

    def forecast(self, placements: Sequence[str], method: str) -> Forecasts:
        """By one of `METHODS`. A placement that cannot be forecast is among the missing, with the reason."""
        self._missing = {}
        notes: tuple[str, ...] = ()
        if method == FAKE:
            found = self._by_fake_steps(placements)
        else:
            found = self._by_rearranging(placements)
            if method == CHECKED:
                found, notes = self._check(found)
        ordered = {text: found[text] for text in placements if text in found}
        return Forecasts(placements=ordered, missing=dict(self._missing), notes=notes)

    def _by_rearranging(self, placements: Sequence[str]) -> dict[str, Forecast]:
        found = {}
        for text in placements:
            try:
                found[text] = self._forecaster.fast(text)
            except CannotRearrangeError:
                found |= self._by_fake_steps([text])
            except Exception as error:  # the model's code ran, or the placement does not suit it
                self._missing[text] = outcome_of(error)[1]
        return found

    def _by_fake_steps(self, placements: Sequence[str]) -> dict[str, Forecast]:
        found = {}
        for text in placements:
            try:
                found[text], log = self._forecaster.by_fake_step(text)
            except Exception as error:
                self._missing[text] = outcome_of(error)[1]
                continue
            if self._roofline is not None:
                self.roofline_ms[text] = self._roofline(log)
        return found

    def _check(self, found: Mapping[str, Forecast]) -> tuple[dict[str, Forecast], tuple[str, ...]]:
        """Whole steps in the place of some forecasts that were rearranged; of all, where one is not the same."""
        rearranged = {text: forecast for text, forecast in found.items() if forecast.method == REARRANGED}
        steps = self._by_fake_steps(forecast_frontier(rearranged)[:NUM_CHECKED])
        different = [text for text, step in steps.items() if not is_same(step, rearranged[text])]
        if not different:
            return {**found, **steps}, ()
        first, step = different[0], steps[different[0]]
        others = self._by_fake_steps([text for text in rearranged if text not in steps])
        off = rearranged[first].peak_allocated_bytes - step.peak_allocated_bytes
        note = f"the fast forecast of {first} was {off:+,} bytes off a whole fake step, so all are by whole steps"
        return {**{t: f for t, f in found.items() if t not in rearranged}, **steps, **others}, (note,)


def forecast_frontier(forecasts: Mapping[str, Forecast]) -> list[str]:
    """Placements that no other beats in both peak and replayed FLOPs, from the lowest peak to the highest."""
    # replayed FLOPs
    # │ x            of those with the lowest peak, the one that replays least,
    # │    x         then each that replays less than all before it
    # │        x
    # └──────────── peak
    by_peak = sorted(forecasts.values(), key=lambda f: (f.peak_allocated_bytes, f.replay_flops or 0))
    frontier: list[str] = []
    least: int | None = None
    for forecast in by_peak:
        replayed = forecast.replay_flops or 0
        if least is None or replayed < least:
            frontier.append(forecast.placement)
            least = replayed
    return frontier


def is_same(one: Forecast, other: Forecast) -> bool:
    """Whether two ways gave equal numbers."""
    return dataclasses.replace(one, method=other.method) == other
