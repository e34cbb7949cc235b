"""The table of forecasts: what it shows, what it leaves out, what stands where nothing is known."""

from __future__ import annotations

import dataclasses

from bench.records import Forecast, Forecasts
from bench.report.forecast_table import ForecastRow, ForecastTable, Measured, forecast_rows, render_forecasts
from bench.report.terminal import plain_text
from tests.records.test_forecasts import forecast_of
from tests.report.examples import MIB

NONE = dataclasses.replace(
    forecast_of("none", 3000 * MIB), persistent_bytes=1000 * MIB, step_flops=10**12, replay_flops=0, replay_ops=0
)
EACH = dataclasses.replace(
    forecast_of("h.0..11:each", 2000 * MIB), persistent_bytes=1000 * MIB, step_flops=10**12, replay_flops=2 * 10**11
)
BOTH = Forecasts(placements={"none": NONE, EACH.placement: EACH})


def rows(
    forecasts: Forecasts = BOTH, placements: tuple[str, ...] = ("none", EACH.placement), **known: object
) -> list[ForecastRow]:
    return list(forecast_rows(placements, forecasts, **known))  # type: ignore[arg-type]


def text_of(shown: list[ForecastRow], notes: tuple[str, ...] = (), width: int = 120) -> str:
    return plain_text(render_forecasts(ForecastTable(title="gpt2 on a CPU", rows=tuple(shown), notes=notes)), width)


def row_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(label))


def reserved(forecast: Forecast, num_bytes: int) -> Forecasts:
    return Forecasts(placements={forecast.placement: dataclasses.replace(forecast, peak_reserved_bytes=num_bytes)})


def test_savings_and_replay_are_relative_to_the_forecast_plain_step() -> None:
    _, each = rows()
    assert (each.saved_share, each.replay_share) == (0.5, 0.2)
    assert row_of(text_of(rows()), "h.0..11:each").split() == [
        "h.0..11:each", "2000", "50.0", "%", "20.0", "%", "fake", "step",
    ]  # fmt: skip


def test_without_the_plain_step_nothing_is_relative_to_it() -> None:
    (each,) = rows(Forecasts(placements={EACH.placement: EACH}), (EACH.placement,))
    assert (each.saved_share, each.replay_share) == (None, None)
    assert row_of(text_of([each]), "h.0..11:each").split()[2:4] == ["–", "–"]


def test_measured_peaks_stand_beside_with_the_error_as_a_share_of_what_could_move() -> None:
    measured = {
        "none": Measured(peak_allocated_bytes=3000 * MIB, persistent_bytes=1000 * MIB),
        EACH.placement: Measured(peak_allocated_bytes=2025 * MIB, persistent_bytes=1000 * MIB),
    }
    none, each = rows(measured=measured)
    assert (none.error_share, each.error_share) == (0.0, -25 / 1025)
    text = text_of([none, each])
    assert row_of(text, "none").split()[1:4] == ["3000", "3000", "exact"]
    assert row_of(text, "h.0..11:each").split()[1:5] == ["2000", "2025", "-2.4", "%"]
    assert "error" not in text_of(rows())


def test_a_target_tells_what_fits_by_what_its_allocator_takes() -> None:
    (fits,) = rows(reserved(NONE, 3100 * MIB), ("none",), capacity_bytes=3100 * MIB)
    (too_large,) = rows(reserved(NONE, 3100 * MIB), ("none",), capacity_bytes=3099 * MIB)
    assert (fits.fits, too_large.fits) == (True, False)
    assert "too large" in row_of(text_of([too_large]), "none")
    assert "reserved" in text_of([fits])


def test_no_capacity_says_nothing_of_fitting() -> None:
    assert [row.fits for row in rows()] == [None, None]
    assert "fits" not in text_of(rows())


def test_a_roofline_time_is_marked_as_a_bound() -> None:
    text = text_of(rows(roofline_ms={"none": 1234.0}))
    assert row_of(text, "none").split()[-3:] == ["1.234", "fake", "step"]
    assert row_of(text, "h.0..11:each").split()[-3:] == ["–", "fake", "step"]
    assert "roofline: a bound from data-sheet rates, not a measured or expected time" in " ".join(text.split())


def test_placements_without_forecast_are_told_together_with_their_reason() -> None:
    forecasts = dataclasses.replace(BOTH, missing={"h.0": "refused", "h.1": "refused"})
    text = text_of(rows(forecasts, ("none", "h.0", "h.1")))
    assert "no forecast of h.0, h.1: refused" in text
    assert not any(line.startswith("h.0 ") for line in text.splitlines())


def test_notes_stand_below_and_lines_fit() -> None:
    text = text_of(rows(), ("of one forward of the real model",), width=80)
    assert text.splitlines()[-1] == "note: of one forward of the real model"
    assert all(len(line) <= 80 for line in text.splitlines())
