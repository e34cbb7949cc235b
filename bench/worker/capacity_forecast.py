"""`python -m bench.worker.capacity_forecast`: peaks of many placements at several sizes, from steps without memory.

At each size all placements come from one recording. A line a size, so that one that breaks costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.capacity.placing import placement_at
from bench.placement import parse_placement
from bench.records.forecast import FAST
from bench.spec import Controls, PlacementEntry
from bench.worker.capacity_lines import Lines, serve
from bench.worker.checked import Forecasting
from bench.worker.failure import outcome_of
from bench.worker.fake_model import fake_model


@dataclass(frozen=True, kw_only=True)
class AtSize:
    size: int
    controls: Controls


@dataclass(frozen=True, kw_only=True)
class ForecastRequest:
    sizes: tuple[AtSize, ...]
    entries: tuple[PlacementEntry, ...]
    wanted: tuple[str, ...]
    """Texts of the entries to forecast."""
    options: Mapping[str, Any] | None = None
    """Of the generators, where the axis changes the model."""


def forecast(request: ForecastRequest, lines: Lines) -> None:
    for at in request.sizes:
        try:
            peaks, missing = _at_size(request, at)
        except (Exception, SystemExit) as error:  # the model's code ran, or has no such size
            peaks, missing = {}, dict.fromkeys(request.wanted, outcome_of(error)[1])
        lines.tell("forecast", {"size": at.size, "peaks": peaks, "missing": missing})


def _at_size(request: ForecastRequest, at: AtSize) -> tuple[dict[str, int], dict[str, str]]:
    """By the text of the entry."""
    model = fake_model(at.controls)
    wanted = [entry for entry in request.entries if entry.text in request.wanted]
    if model.forecaster is None:
        return {}, dict.fromkeys(request.wanted, model.problem)
    texts = {entry.text: _text_at(request, entry, model.chains) for entry in wanted}
    units = sorted({u for text in texts.values() for region in parse_placement(text).regions for u in region.units})
    found = Forecasting(model.forecaster(units)).forecast(list(dict.fromkeys(texts.values())), FAST)
    peaks = {
        asked: found.placements[text].peak_allocated_bytes for asked, text in texts.items() if text in found.placements
    }
    missing = {asked: found.missing.get(text, "") for asked, text in texts.items() if text not in found.placements}
    return peaks, missing


def _text_at(request: ForecastRequest, entry: PlacementEntry, chains: Any) -> str:
    return entry.text if request.options is None else placement_at(entry, request.entries, request.options, chains)


if __name__ == "__main__":
    raise SystemExit(serve(ForecastRequest, forecast))
