"""Timelines beside forecasts: one that cannot be made is told, and costs no forecast."""

from __future__ import annotations

import pytest

from bench.placement import parse_placement
from bench.records.forecast import CHECKED, FAKE, FAST
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import Rearranged
from bench.worker.checked import Forecasting
from bench.worker.timelines import TimelineForecaster
from tests.trace.test_rearrange import Chain, Mlp, forecaster

PLACEMENTS = ("none", "blocks.0..3:each", "blocks.0", "blocks.0..1", "blocks.1+blocks.2")


@pytest.fixture(scope="module")
def mlps() -> Forecaster:
    return forecaster(lambda: Chain([Mlp() for _ in range(4)]))


@pytest.mark.parametrize("method", [CHECKED, FAKE, FAST])
def test_each_forecast_has_its_timeline_and_is_what_it_is_without(mlps: Forecaster, method: str) -> None:
    keeping = TimelineForecaster(mlps)
    forecasts = Forecasting(keeping).forecast(PLACEMENTS, method)
    timelines, notes = keeping.timelines(forecasts)
    assert forecasts == Forecasting(mlps).forecast(PLACEMENTS, method)
    assert notes == ()
    assert {text: timeline.peak_bytes for text, timeline in timelines.items()} == {
        text: forecast.peak_allocated_bytes for text, forecast in forecasts.placements.items()
    }


def test_a_timeline_that_cannot_be_made_is_told_and_the_forecasts_stay(
    mlps: Forecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = TimelineForecaster(mlps)
    forecasts = Forecasting(keeping).forecast(PLACEMENTS, FAST)

    def broken(placement: object) -> Rearranged:
        if str(placement) == str(parse_placement("blocks.0")):
            raise ValueError("a block died twice")
        return rearranged(placement)  # type: ignore[arg-type]

    rearranged = mlps.rearranged
    monkeypatch.setattr(mlps, "rearranged", broken)
    timelines, notes = keeping.timelines(forecasts)
    assert set(timelines) == set(PLACEMENTS) - {"blocks.0"}
    assert notes == ("no memory timeline of 1 placement, of blocks.0 since ValueError: a block died twice",)
