"""Forecast placements as a table for a terminal, what was measured of them beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.frontier.trials import forecast_error
from bench.frontier.types import MemoryReference
from bench.records import PLAIN, Forecast, Forecasts
from bench.report.labels import shorten
from bench.report.quantities import ABSENT, error_text, memory_unit, share_text, time_unit
from bench.report.shares import replay_share, saving_share
from bench.report.table import LABEL_WIDTH_MIN, Folded

FITS, TOO_LARGE = "fits", "too large"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a study measured of a placement."""

    peak_allocated_bytes: int
    persistent_bytes: int


@dataclass(frozen=True, kw_only=True)
class ForecastRow:
    """A placement as the table shows it; what is not known is None."""

    placement: str
    method: str | None = None
    peak_allocated_bytes: int | None = None
    persistent_bytes: int | None = None
    peak_phase: str | None = None
    peak_reserved_bytes: int | None = None
    saved_share: float | None = None
    """Of what could move: the plain step's peak above its persistent state."""
    replay_share: float | None = None
    """Replayed FLOPs over those of the plain step."""
    replay_flops: int | None = None
    replay_moved_bytes: int | None = None
    fits: bool | None = None
    """Whether the bytes taken from the driver stay below the capacity."""
    roofline_ms: float | None = None
    measured_peak_bytes: int | None = None
    error_share: float | None = None
    """(forecast peak − measured peak) / (measured peak − persistent)."""
    problem: str | None = None
    """Why there is no forecast."""


@dataclass(frozen=True, kw_only=True)
class ForecastTable:
    title: str
    rows: tuple[ForecastRow, ...]
    notes: tuple[str, ...]


def forecast_rows(
    placements: Sequence[str],
    forecasts: Forecasts,
    *,
    measured: Mapping[str, Measured] | None = None,
    roofline_ms: Mapping[str, float] | None = None,
    capacity_bytes: int | None = None,
) -> tuple[ForecastRow, ...]:
    """One row a placement, in order.

    Args:
        capacity_bytes: what the step may take from the device; None where that is not known.
    """
    plain = forecasts.placements.get(PLAIN)
    rows = []
    for text in placements:
        forecast = forecasts.placements.get(text)
        if forecast is None:
            rows.append(ForecastRow(placement=text, problem=forecasts.missing.get(text, "not asked for")))
        else:
            found = (measured or {}).get(text)
            rows.append(_row(forecast, plain, found, (roofline_ms or {}).get(text), capacity_bytes))
    return tuple(rows)


def render_forecasts(table: ForecastTable) -> RenderableType:
    shortening = shorten(row.placement for row in table.rows)
    forecast = [row for row in table.rows if row.problem is None]
    parts: list[RenderableType] = [Text(table.title, style="bold")]
    if forecast:
        parts += [_forecast_table(forecast, [shortening.label(row.placement) for row in forecast])]
        parts += [Text(sentence, style="dim") for sentence in (_legend(forecast), *shortening.explanations())]
    reasons: dict[str, list[str]] = {}
    for row in table.rows:
        if row.problem is not None:
            reasons.setdefault(row.problem, []).append(shortening.label(row.placement))
    parts += [Text(f"no forecast of {', '.join(labels)}: {why}", style="red") for why, labels in reasons.items()]
    parts += [Text(f"note: {note}", style="yellow") for note in table.notes]
    return Group(*parts)


def _row(
    forecast: Forecast,
    plain: Forecast | None,
    measured: Measured | None,
    roofline_ms: float | None,
    capacity_bytes: int | None,
) -> ForecastRow:
    taken = forecast.peak_reserved_bytes or forecast.peak_allocated_bytes
    return ForecastRow(
        placement=forecast.placement,
        method=forecast.method,
        peak_allocated_bytes=forecast.peak_allocated_bytes,
        persistent_bytes=forecast.persistent_bytes,
        peak_phase=forecast.peak_phase,
        peak_reserved_bytes=forecast.peak_reserved_bytes,
        saved_share=saving_share(forecast.peak_allocated_bytes, None if plain is None else _reference(plain)),
        replay_share=replay_share(forecast.replay_flops, None if plain is None else plain.step_flops),
        replay_flops=forecast.replay_flops,
        replay_moved_bytes=forecast.replay_moved_bytes,
        fits=None if capacity_bytes is None else taken <= capacity_bytes,
        roofline_ms=roofline_ms,
        measured_peak_bytes=None if measured is None else measured.peak_allocated_bytes,
        error_share=None if measured is None else _error(forecast, measured),
    )


def _reference(plain: Forecast) -> MemoryReference:
    return MemoryReference(peak_allocated_bytes=plain.peak_allocated_bytes, persistent_bytes=plain.persistent_bytes)


def _error(forecast: Forecast, measured: Measured) -> float | None:
    return forecast_error(forecast.peak_allocated_bytes, measured.peak_allocated_bytes, measured.persistent_bytes)


def _forecast_table(rows: Sequence[ForecastRow], labels: Sequence[str]) -> Table:
    memory = memory_unit(row.peak_allocated_bytes for row in rows)
    time = time_unit(row.roofline_ms for row in rows)
    shown = _columns(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("placement", min_width=LABEL_WIDTH_MIN)
    headers = {
        "peak": f"forecast\n{memory.name}",
        "reserved": f"reserved\n{memory.name}",
        "roofline": f"roofline\n{time.name}",
        "measured": f"measured\n{memory.name}",
    }
    for name in shown:
        table.add_column(headers.get(name, name), justify="left" if name == "method" else "right", no_wrap=True)
    for row, label in zip(rows, labels, strict=True):
        cells = {
            "peak": memory.text(row.peak_allocated_bytes),
            "reserved": memory.text(row.peak_reserved_bytes),
            "saved": share_text(row.saved_share),
            "replay": share_text(row.replay_share),
            "fits": ABSENT if row.fits is None else FITS if row.fits else TOO_LARGE,
            "roofline": time.text(row.roofline_ms),
            "measured": memory.text(row.measured_peak_bytes),
            "error": error_text(row.error_share),
            "method": row.method or ABSENT,
        }
        style = "" if row.fits is not False else "red"
        table.add_row(Folded(label), *(cells[name] for name in shown), style=style)
    return table


def _columns(rows: Sequence[ForecastRow]) -> list[str]:
    """Those that any row has something for."""
    optional = {
        "reserved": any(row.peak_reserved_bytes is not None for row in rows),
        "fits": any(row.fits is not None for row in rows),
        "roofline": any(row.roofline_ms is not None for row in rows),
        "measured": any(row.measured_peak_bytes is not None for row in rows),
        "error": any(row.measured_peak_bytes is not None for row in rows),
    }
    order = ("peak", "measured", "error", "saved", "replay", "reserved", "fits", "roofline", "method")
    return [name for name in order if optional.get(name, True)]


def _legend(rows: Sequence[ForecastRow]) -> str:
    told = [
        "forecast: peak of allocated memory in one step; saved: share of what could move (the plain step's peak − "
        "persistent)",
        "replay: replayed FLOPs over the plain step's",
    ]
    shown = _columns(rows)
    if "error" in shown:
        told.append("error: (forecast − measured) / (measured − persistent)")
    if "fits" in shown:
        told.append("fits: what the allocator takes from the driver, against the device's memory less its context")
    if "roofline" in shown:
        told.append("roofline: a bound from data-sheet rates, not a measured or expected time")
    return "; ".join(told)
