"""`forecast`: the peak of any placement without training, for this device or for a GPU that need not be here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.measured import asked_step, measured_study
from bench.cli.paths import shown
from bench.cli.request import CONTROL_GROUPS, refuse_unknown
from bench.cli.target import asked_target
from bench.frontier import load_frontier
from bench.records.forecast import METHODS
from bench.report.forecast_table import ForecastTable, Measured, forecast_rows, render_forecasts
from bench.report.terminal import show
from bench.spec import Controls, SpecError, to_mapping
from bench.study import ForecastAnswer, ask_forecasts
from bench.target.spec import Target

OPTIONS = (*CONTROL_GROUPS, "caps", "placements", "target", "method", "study", "results")


def run(overrides: Sequence[str]) -> int:
    return run_verb("forecast", forecast, overrides)


def forecast(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    results: Path = options["results"]
    if options["method"] not in METHODS:
        raise SpecError(f"method: {options['method']!r} is not one of {', '.join(METHODS)}")
    target = asked_target(options["target"])
    controls, study, directory = asked_step(options)
    placements = options["placements"] if study is None else {"explicit": [entry.text for entry in study.placements]}
    with Console(stderr=True).status(f"forecasting {controls.model.name}"):
        answer = ask_forecasts(
            controls,
            placements,
            method=options["method"],
            with_plain=True,
            target=None if target is None else to_mapping(target),
        )
    if target is None and directory is None and answer.facts is not None:
        directory = measured_study(results, dataclasses.replace(controls, facts=answer.facts))
    table = _table(controls, target, answer, None if target is not None else directory)
    show(render_forecasts(table))
    if directory is not None and target is None:
        print(f"\nmeasured by the study {shown(directory)}")
    data = _data(controls, target, answer, table, directory)
    return Answer(exit_code=PARTIAL if answer.forecasts.missing else COMPLETE, data=data)


def _table(controls: Controls, target: Target | None, answer: ForecastAnswer, directory: Path | None) -> ForecastTable:
    device = answer.facts.device_name if answer.facts is not None else controls.device.kind
    capacity = controls.device.memory_limit_bytes
    if target is not None:
        device, capacity = f"{target.device_name} (not here)", target.allocatable_bytes
    workload = controls.workload
    batch = f"{workload.micro_batch} × {' × '.join(str(size) for size in workload.shape.values())}"
    rows = forecast_rows(
        [entry.text for entry in answer.placements],
        answer.forecasts,
        measured=None if directory is None else _measured(directory),
        roofline_ms=answer.roofline_ms,
        capacity_bytes=capacity,
    )
    title = (
        f"{controls.model.name} on {device}, {controls.precision}, {batch.rstrip(' ×')}: forecast, nothing was trained"
    )
    return ForecastTable(title=title, rows=rows, notes=answer.forecasts.notes)


def _measured(directory: Path) -> dict[str, Measured]:
    return {
        trial.placement: Measured(
            peak_allocated_bytes=trial.peak_allocated_bytes, persistent_bytes=trial.persistent_bytes
        )
        for trial in load_frontier(directory).trials
        if trial.peak_allocated_bytes is not None and trial.persistent_bytes is not None
    }


def _data(
    controls: Controls, target: Target | None, answer: ForecastAnswer, table: ForecastTable, directory: Path | None
) -> dict[str, Any]:
    return {
        "model": controls.model.name,
        "precision": controls.precision,
        "workload": to_mapping(controls.workload),
        "target": None if target is None else to_mapping(target) | {"allocatable_bytes": target.allocatable_bytes},
        "study": None if directory is None else str(directory),
        "placements": [to_mapping(row) for row in table.rows],
        "notes": list(table.notes),
        "wall_s": answer.wall_s,
    }
