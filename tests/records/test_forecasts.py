"""`forecast.json`: what is written is read, and what cannot be read harms nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.records import FORECAST_FILE, Forecast, Forecasts, read_forecasts, read_records, write_forecasts
from bench.records.forecast import FAKE_STEP


def forecast_of(placement: str, peak: int = 1000) -> Forecast:
    return Forecast(
        placement=placement,
        method=FAKE_STEP,
        peak_allocated_bytes=peak,
        persistent_bytes=400,
        retained_bytes=300,
        peak_phase="backward",
        step_flops=10**9,
        replay_flops=None,
        replay_ops=3,
        replay_moved_bytes=64,
    )


SOME = Forecasts(
    placements={"none": forecast_of("none"), "h.0": forecast_of("h.0", 800)},
    missing={"h.1": "its unit is called with keywords"},
    notes=("made by whole steps",),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_forecasts(tmp_path, SOME)
    assert read_forecasts(tmp_path) == SOME
    assert read_records(tmp_path).forecasts == SOME


def test_forecasts_are_named_by_placement_and_have_a_schema_version(tmp_path: Path) -> None:
    write_forecasts(tmp_path, SOME)
    data = json.loads((tmp_path / FORECAST_FILE).read_text())
    assert set(data) == {"schema_version", "placements", "missing", "notes"}
    assert data["placements"]["h.0"]["peak_allocated_bytes"] == 800
    assert data["placements"]["h.0"]["replay_flops"] is None


def test_no_file_is_no_forecasts(tmp_path: Path) -> None:
    assert read_forecasts(tmp_path) == Forecasts()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{torn", "Expecting property name"),
        ("[]", "schema_version None, expected 1"),
        ('{"schema_version": 2, "placements": {}}', "schema_version 2, expected 1"),
        ('{"schema_version": 1, "placements": {"none": {"placement": "none"}}}', "placements.none"),
        ('{"schema_version": 1, "places": {}}', "places: no such option"),
    ],
)
def test_a_damaged_file_is_no_forecasts_and_says_what_is_wrong(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / FORECAST_FILE).write_text(content)
    found = read_forecasts(tmp_path)
    assert (found.placements, found.missing) == ({}, {})
    assert found.problem is not None
    assert why in found.problem
    assert "the next sweep of this study makes it anew" in found.problem


def test_a_forecast_under_the_name_of_another_placement_is_damage(tmp_path: Path) -> None:
    write_forecasts(tmp_path, Forecasts(placements={"h.0": forecast_of("h.1")}))
    assert "h.0 holds the forecast of another placement" in (read_forecasts(tmp_path).problem or "")


def test_a_problem_is_never_written(tmp_path: Path) -> None:
    write_forecasts(tmp_path, Forecasts(problem="it was torn"))
    assert "torn" not in (tmp_path / FORECAST_FILE).read_text()


def test_later_forecasts_hold_and_end_what_was_missing() -> None:
    later = Forecasts(placements={"h.1": forecast_of("h.1", 700), "h.0": forecast_of("h.0", 750)}, notes=("again",))
    both = SOME.joined(later)
    assert {text: f.peak_allocated_bytes for text, f in both.placements.items()} == {
        "none": 1000,
        "h.0": 750,
        "h.1": 700,
    }
    assert both.missing == {}
    assert both.notes == ("made by whole steps", "again")
