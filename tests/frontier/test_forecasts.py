"""Forecasts beside what was measured: the error, what stands for a plain step that does not fit, and the sentences."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.frontier import (
    Frontier,
    MemoryReference,
    build_frontier,
    load_frontier,
    merge_records,
    source_digest,
    write_frontier,
)
from bench.frontier.trials import forecast_error
from bench.records import Forecast, Forecasts, Records, RecordWriter, write_forecasts, write_study
from tests.builders import MIB, make_records, make_study
from tests.records.test_forecasts import forecast_of

TIMES = {"none": [100.0] * 3, "a": [110.0] * 3, "b": [130.0] * 3}
PEAKS = {"none": 100 * MIB, "a": 60 * MIB, "b": 40 * MIB}
WITHOUT_NONE = {"a": TIMES["a"], "b": TIMES["b"]}, {"a": PEAKS["a"], "b": PEAKS["b"]}
"""Half of a peak is persistent, as tests.builders has it."""


def forecasts_of(**peaks: int) -> dict[str, Forecast]:
    return {text: forecast_of(text, peak) for text, peak in peaks.items()}


def frontier_of(records: Records, forecasts: Forecasts) -> Frontier:
    return build_frontier(make_study(("none", "a", "b")), dataclasses.replace(records, forecasts=forecasts))


def test_the_error_is_a_share_of_what_could_move() -> None:
    assert forecast_error(110, 100, 50) == 0.2
    assert forecast_error(90, 100, 50) == -0.2
    assert forecast_error(100, 100, 50) == 0.0


def test_there_is_no_error_where_a_part_of_it_was_not_measured() -> None:
    assert forecast_error(110, None, 50) is None
    assert forecast_error(110, 100, None) is None
    assert forecast_error(110, 100, 100) is None


def test_a_measured_trial_has_forecast_and_error_and_one_without_forecast_has_neither() -> None:
    forecasts = Forecasts(placements=forecasts_of(none=100 * MIB, a=63 * MIB))
    trials = {t.placement: t for t in frontier_of(make_records(TIMES, PEAKS), forecasts).trials}
    assert (trials["none"].forecast_peak_bytes, trials["none"].forecast_error_share) == (100 * MIB, 0.0)
    assert (trials["a"].forecast_peak_bytes, trials["a"].forecast_error_share) == (63 * MIB, 0.1)
    assert trials["a"].forecast_method == "fake step"
    assert (trials["b"].forecast_peak_bytes, trials["b"].forecast_error_share) == (None, None)


def test_a_placement_that_did_not_fit_has_a_forecast_and_no_error() -> None:
    records = make_records({"none": [100.0] * 3}, {"none": 100 * MIB}, {"a": ("oom", "2 GiB")})
    trials = {t.placement: t for t in frontier_of(records, Forecasts(placements=forecasts_of(a=63 * MIB))).trials}
    assert (trials["a"].outcome, trials["a"].forecast_peak_bytes) == ("oom", 63 * MIB)
    assert (trials["a"].forecast_error_share, trials["a"].peak_allocated_bytes) == (None, None)


def test_peaks_are_held_against_the_measured_reference() -> None:
    frontier = frontier_of(make_records(TIMES, PEAKS), Forecasts(placements=forecasts_of(none=90 * MIB)))
    assert frontier.plain_forecast is None


def test_peaks_are_held_against_the_forecast_of_none_where_none_does_not_fit() -> None:
    records = make_records(*WITHOUT_NONE, {"none": ("oom", "2 GiB")})
    frontier = frontier_of(records, Forecasts(placements=forecasts_of(none=90 * MIB)))
    assert frontier.reference == "a", "times are still relative to the fastest that fits"
    assert frontier.plain_forecast == MemoryReference(peak_allocated_bytes=90 * MIB, persistent_bytes=400)
    assert "the peak of `none` is a forecast (90.0 MiB), not measured: shares of the peak and savings rest on it" in (
        frontier.notes
    )


def test_a_none_that_failed_otherwise_is_not_replaced_by_its_forecast() -> None:
    records = make_records(*WITHOUT_NONE, {"none": ("error", "it raised")})
    frontier = frontier_of(records, Forecasts(placements=forecasts_of(none=90 * MIB)))
    assert frontier.plain_forecast is None
    assert not any("is a forecast" in note for note in frontier.notes)


def test_without_a_forecast_of_none_the_reference_is_what_peaks_are_held_against() -> None:
    frontier = frontier_of(make_records(*WITHOUT_NONE, {"none": ("oom", "2 GiB")}), Forecasts())
    assert frontier.plain_forecast is None


def test_forecasts_within_one_percent_are_no_note() -> None:
    forecasts = Forecasts(placements=forecasts_of(none=100 * MIB + MIB // 2, a=60 * MIB, b=40 * MIB - 100))
    assert frontier_of(make_records(TIMES, PEAKS), forecasts).notes == ()


def test_forecasts_that_miss_are_told_with_the_worst() -> None:
    forecasts = Forecasts(placements=forecasts_of(none=101 * MIB, a=54 * MIB, b=40 * MIB))
    assert frontier_of(make_records(TIMES, PEAKS), forecasts).notes == (
        "the forecast misses the measured peak of 2 placements by more than 1 % of what could move, most that of a by "
        "-20.0 % (54.0 MiB forecast, 60.0 MiB measured): what was measured holds",
    )


def test_missing_forecasts_are_told_once_a_reason() -> None:
    missing = dict.fromkeys(("none", "a", "b"), "fake tensors cannot follow this model")
    notes = frontier_of(make_records(TIMES, PEAKS), Forecasts(missing=missing)).notes
    assert notes == ("no forecast of 3 placements: fake tensors cannot follow this model",)
    reasons = {"none": "one", "a": "two", "b": "three"}
    assert frontier_of(make_records(TIMES, PEAKS), Forecasts(missing=reasons)).notes == (
        "no forecast of none: one",
        "no forecast of a: two",
        "no forecast of 1 placement more, for other reasons (forecast.json)",
    )


def test_what_is_to_be_known_of_the_forecasts_says_that_it_is_of_them() -> None:
    forecasts = Forecasts(notes=("routing is assumed to be even",))
    assert frontier_of(make_records(TIMES, PEAKS), forecasts).notes == ("forecast: routing is assumed to be even",)


def test_a_missing_forecast_of_a_placement_that_the_study_does_not_have_is_no_note() -> None:
    assert frontier_of(make_records(TIMES, PEAKS), Forecasts(missing={"gone": "why"})).notes == ()


def test_merged_studies_have_the_forecasts_of_both() -> None:
    study = make_study(("none", "a", "b"))
    first = dataclasses.replace(make_records(TIMES, PEAKS), forecasts=Forecasts(placements=forecasts_of(a=1)))
    second = dataclasses.replace(
        make_records(TIMES, PEAKS), forecasts=Forecasts(placements=forecasts_of(b=2), missing={"a": "why"})
    )
    _, merged = merge_records([(study, first), (study, second)])
    assert set(merged.forecasts.placements) == {"a", "b"}
    assert merged.forecasts.missing == {}


def test_a_frontier_file_is_outdated_once_there_are_forecasts(tmp_path: Path) -> None:
    study = make_study(("none", "a", "b"))
    write_study(tmp_path, study)
    writer = RecordWriter(tmp_path)
    writer.append_all(make_records(TIMES, PEAKS).entries)
    writer.close()
    write_frontier(tmp_path, build_frontier(study, make_records(TIMES, PEAKS)), built_from=source_digest(tmp_path))
    assert {t.forecast_peak_bytes for t in load_frontier(tmp_path).trials} == {None}
    write_forecasts(tmp_path, Forecasts(placements=forecasts_of(none=7, a=8, b=9)))
    assert [t.forecast_peak_bytes for t in load_frontier(tmp_path).trials] == [7, 8, 9]
