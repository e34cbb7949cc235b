"""Memory timelines of a study: made by the real process with its forecasts, and in its directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.records import FORECAST_FILE, read_forecasts
from bench.records.forecast import CHECKED, FAKE, FAST
from bench.records.timeline import TIMELINE_FILE, read_timelines, totals_of
from bench.study.forecasting import ask_forecasts, forecast_study
from bench.trace.compact import MAX_POINTS
from tests.study.test_forecasting import READS_VALUES, custom_controls
from tests.toy_study import EACH, toy_controls, toy_study

SPAN = "blocks.0..1"


def made(directory: Path, placements: tuple[str, ...], method: str = CHECKED) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    told: list[str] = []
    forecast_study(directory, toy_study(placements), lambda e: told.append(e.message) if e.message else None, method)
    assert told == []


@pytest.mark.parametrize("method", [CHECKED, FAKE, FAST])
def test_every_forecast_has_a_timeline_whose_peak_is_the_forecast_one(tmp_path: Path, method: str) -> None:
    made(tmp_path, ("none", EACH, SPAN), method)
    forecasts, timelines = read_forecasts(tmp_path).placements, read_timelines(tmp_path).placements
    assert set(forecasts) == set(timelines) == {"none", EACH, SPAN}
    for text, timeline in timelines.items():
        totals = totals_of(timeline)
        assert timeline.peak_bytes == max(totals) == forecasts[text].peak_allocated_bytes
        assert totals[0] == forecasts[text].persistent_bytes
        assert len(totals) <= MAX_POINTS
        assert [phase.phase for phase in timeline.phases][:2] == ["forward", "backward"]
        assert max(timeline.phases, key=lambda phase: phase.peak_bytes).phase == forecasts[text].peak_phase


def test_an_extended_study_keeps_the_timelines_that_it_has(tmp_path: Path) -> None:
    made(tmp_path, ("none",))
    before = json.loads((tmp_path / TIMELINE_FILE).read_text())["placements"]["none"]
    made(tmp_path, ("none", EACH))
    after = json.loads((tmp_path / TIMELINE_FILE).read_text())["placements"]
    assert set(after) == {"none", EACH}
    assert after["none"] == before


def test_a_study_from_before_there_were_timelines_gets_them_once_its_forecasts_are_removed(tmp_path: Path) -> None:
    made(tmp_path, ("none", EACH))
    (tmp_path / TIMELINE_FILE).unlink()
    made(tmp_path, ("none", EACH))
    assert read_timelines(tmp_path).placements == {}, "forecasts that are there are not made again"
    (tmp_path / FORECAST_FILE).unlink()
    made(tmp_path, ("none", EACH))
    assert set(read_timelines(tmp_path).placements) == {"none", EACH}


def test_a_damaged_file_is_replaced_when_something_is_forecast(tmp_path: Path) -> None:
    (tmp_path / TIMELINE_FILE).write_text("{torn")
    made(tmp_path, ("none",))
    found = read_timelines(tmp_path)
    assert (set(found.placements), found.problem) == ({"none"}, None)


def test_what_cannot_be_forecast_has_no_timeline(tmp_path: Path) -> None:
    directory = tmp_path / "study"
    directory.mkdir()
    study = toy_study(("none", "blocks.0"), custom_controls(tmp_path, READS_VALUES))
    forecast_study(directory, study, lambda event: None, CHECKED)
    assert set(read_forecasts(directory).missing) == {"none", "blocks.0"}
    assert not (directory / TIMELINE_FILE).exists()


def test_timelines_are_answered_to_those_who_ask_for_them_alone() -> None:
    placements = {"explicit": [EACH]}
    assert ask_forecasts(toy_controls(), placements, method=FAKE).timelines == {}
    assert set(ask_forecasts(toy_controls(), placements, method=FAKE, with_timelines=True).timelines) == {EACH}
