"""Which forecasts are checked by whole steps, and what follows where they differ. A forecaster of given numbers stands
for the real one, whose fast way is not wrong on request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from bench.placement import UnsupportedPlacementError
from bench.records import Forecast
from bench.records.forecast import CHECKED, FAKE, FAKE_STEP, FAST, REARRANGED
from bench.trace.log import StepLog
from bench.trace.rearrange import CannotRearrangeError
from bench.worker.checked import NUM_CHECKED, Forecasting, forecast_frontier
from tests.records.test_forecasts import forecast_of

EMPTY_LOG = StepLog(
    model="m",
    placement="",
    device="cpu",
    is_fake=True,
    ops=(),
    storages=(),
    passes=(),
    phases=(),
    sources=(),
    events=(),
)
POINTS = {"none": (1000, 0), "a": (800, 10), "b": (700, 20), "c": (600, 30), "d": (500, 40), "dominated": (900, 50)}
"""Placement → peak and replayed FLOPs."""


class Given:
    """Forecasts as given; `wrong` are what the fast way says instead, and `refused` what it refuses."""

    def __init__(self, wrong: Mapping[str, int] | None = None, refused: tuple[str, ...] = ()) -> None:
        self.wrong, self.refused = wrong or {}, refused
        self.steps: list[str] = []

    def by_fake_step(self, placement: str) -> tuple[Forecast, StepLog]:
        if placement == "unsupported":
            raise UnsupportedPlacementError("its unit is called with keywords")
        self.steps.append(placement)
        return point(placement), EMPTY_LOG

    def fast(self, placement: str) -> Forecast:
        if placement == "unsupported":
            raise UnsupportedPlacementError("its unit is called with keywords")
        if placement in self.refused:
            raise CannotRearrangeError("a reentrant region")
        found = point(placement)
        peak = self.wrong.get(placement, found.peak_allocated_bytes)
        return dataclasses.replace(found, method=REARRANGED, peak_allocated_bytes=peak)


def point(placement: str) -> Forecast:
    peak, flops = POINTS[placement]
    return dataclasses.replace(forecast_of(placement, peak), replay_flops=flops)


def methods(forecaster: Given, method: str) -> dict[str, str]:
    found = Forecasting(forecaster).forecast(list(POINTS), method)
    assert list(found.placements) == list(POINTS)
    return {text: forecast.method for text, forecast in found.placements.items()}


def test_the_forecast_frontier_goes_from_the_lowest_peak_and_leaves_dominated_ones_out() -> None:
    assert forecast_frontier({text: point(text) for text in POINTS}) == ["d", "c", "b", "a", "none"]


def test_of_equal_peaks_the_frontier_has_the_one_that_replays_least() -> None:
    twice = {text: dataclasses.replace(point(text), peak_allocated_bytes=7) for text in ("b", "a", "none")}
    assert forecast_frontier(twice) == ["none"]


def test_the_lowest_of_the_frontier_are_checked_by_whole_steps() -> None:
    forecaster = Given()
    found = methods(forecaster, CHECKED)
    assert forecaster.steps == ["d", "c", "b"]
    assert len(forecaster.steps) == NUM_CHECKED
    assert found == {text: FAKE_STEP if text in "dcb" else REARRANGED for text in POINTS}


def test_where_one_differs_all_are_by_whole_steps_and_it_is_told() -> None:
    forecaster = Given(wrong={"c": 607})
    found = Forecasting(forecaster).forecast(list(POINTS), CHECKED)
    assert {forecast.method for forecast in found.placements.values()} == {FAKE_STEP}
    assert sorted(forecaster.steps) == sorted(POINTS), "each once"
    assert {text: f.peak_allocated_bytes for text, f in found.placements.items()} == {
        t: p for t, (p, _) in POINTS.items()
    }
    assert found.notes == ("the fast forecast of c was +7 bytes off a whole fake step, so all are by whole steps",)


def test_what_the_fast_way_refuses_is_by_a_whole_step_alone() -> None:
    forecaster = Given(refused=("none", "a"))
    found = methods(forecaster, FAST)
    assert found == {text: FAKE_STEP if text in ("none", "a") else REARRANGED for text in POINTS}
    assert forecaster.steps == ["none", "a"]


def test_fast_checks_nothing_and_fake_runs_all() -> None:
    unchecked, whole = Given(wrong={"c": 607}), Given(wrong={"c": 607})
    assert set(methods(unchecked, FAST).values()) == {REARRANGED}
    assert unchecked.steps == []
    assert set(methods(whole, FAKE).values()) == {FAKE_STEP}
    assert whole.steps == list(POINTS)


@pytest.mark.parametrize("method", [CHECKED, FAKE, FAST])
def test_what_cannot_be_forecast_is_missing_with_the_reason_and_the_others_are_there(method: str) -> None:
    found = Forecasting(Given()).forecast(["none", "unsupported", "a"], method)
    assert list(found.placements) == ["none", "a"]
    assert found.missing == {"unsupported": "its unit is called with keywords"}


def test_a_whole_step_has_a_roofline_time() -> None:
    forecasting = Forecasting(Given(), lambda log: 2.5)
    forecasting.forecast(["none", "a"], FAKE)
    assert forecasting.roofline_ms == {"none": 2.5, "a": 2.5}
    assert Forecasting(Given()).roofline_ms == {}
