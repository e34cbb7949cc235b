"""`python -m bench.worker.forecast`: which placements, as JSON on stdin; their forecasts on the last line of stdout.

Steps run on tensors without memory, so this takes no accelerator, and little memory for a model of any size.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.placement import check_modules, check_ops, generate_placements, parse_placement
from bench.placement.policy import known_ops
from bench.records import PLAIN, Forecasts
from bench.records.forecast import CHECKED, METHODS
from bench.records.timeline import Timeline
from bench.spec import Controls, SpecError, to_mapping
from bench.worker.answering import answer_question
from bench.worker.checked import Forecasting
from bench.worker.fake_model import fake_model, target_model
from bench.worker.timelines import TimelineForecaster


@dataclass(frozen=True, kw_only=True)
class Request:
    controls: Controls
    placements: Mapping[str, Any]
    """Options of the generators, as in `conf/placements`."""
    method: str = CHECKED
    with_plain: bool = False
    """Forecast `none` as well, which shares and savings are relative to."""
    target: Mapping[str, Any] | None = None
    """A GPU that need not be here, as in `conf/target`; None forecasts for the device of the controls."""
    with_timelines: bool = False
    """Answer the memory timelines of what is forecast as well."""


def answer(request: Request) -> dict[str, Any]:
    """What `bench.study.forecasting.ForecastAnswer` holds.

    Raises:
        SpecError: the request cannot be carried out as written.
    """
    if request.method not in METHODS:
        raise SpecError(f"method: {request.method!r} is not one of {', '.join(METHODS)}")
    began = time.monotonic()
    model = fake_model(request.controls) if request.target is None else target_model(request.controls, request.target)
    entries = generate_placements(request.placements, model.chains)
    if request.with_plain and all(entry.text != PLAIN for entry in entries):
        entries = (*generate_placements({"none": True}, model.chains), *entries)
    check_modules(entries, model.modules)
    check_ops(entries, known_ops())
    texts = [entry.text for entry in entries]
    timelines: Mapping[str, Timeline] = {}
    if model.forecaster is None:
        forecasts, roofline_ms = Forecasts(missing=dict.fromkeys(texts, model.problem)), {}
    else:
        units = sorted({unit for text in texts for region in parse_placement(text).regions for unit in region.units})
        forecaster = model.forecaster(units)
        keeping = TimelineForecaster(forecaster) if request.with_timelines else None
        forecasting = Forecasting(keeping or forecaster, model.roofline)
        forecasts, roofline_ms = forecasting.forecast(texts, request.method), forecasting.roofline_ms
        timelines, without = keeping.timelines(forecasts) if keeping is not None else ({}, ())
        forecasts = dataclasses.replace(forecasts, notes=(*forecasts.notes, *model.notes(), *without))
    return {
        "chains": to_mapping(model.chains),
        "placements": to_mapping(entries),
        "forecasts": to_mapping(forecasts),
        "facts": to_mapping(model.facts),
        "roofline_ms": roofline_ms,
        "timelines": to_mapping(timelines),
        "wall_s": round(time.monotonic() - began, 3),
    }


if __name__ == "__main__":
    raise SystemExit(answer_question(Request, answer, "the model cannot be forecast"))
