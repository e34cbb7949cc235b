"""Forecasts, asked of a process of its own: for the `forecast` verb, and before a study is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.records import CannotWriteError, Forecasts, read_forecasts, write_forecasts
from bench.records.forecast import CHECKED, METHODS as METHODS
from bench.records.timeline import Timeline, read_timelines, write_timelines
from bench.spec import (
    OFF,
    OWN_TARGET,
    ChainInfo,
    Controls,
    Facts,
    PlacementEntry,
    SpecError,
    StudySpec,
    to_mapping,
)
from bench.study.ask import ask_process
from bench.study.progress import Progress, Watch
from bench.study.supervise import WorkerError

TIMEOUT_S = 3600.0
STUDY_TIMEOUT_S = 300.0
"""A study waits no longer for its forecasts."""


@dataclass(frozen=True, kw_only=True)
class ForecastAnswer:
    """What `bench.worker.forecast` answers."""

    chains: tuple[ChainInfo, ...]
    placements: tuple[PlacementEntry, ...]
    """Asked for, in order."""
    forecasts: Forecasts
    facts: Facts | None = None
    """Of the device at hand; None for a target."""
    roofline_ms: Mapping[str, float] = field(default_factory=dict)
    """Placement → step time by the target's roofline; a bound from data sheets, never measured."""
    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    """Placement → memory over its step, where that was asked for."""
    wall_s: float
    """That the process took, without its start."""


def ask_forecasts(
    controls: Controls,
    placements: Mapping[str, Any],
    *,
    method: str = CHECKED,
    with_plain: bool = False,
    with_timelines: bool = False,
    target: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ForecastAnswer:
    """
    Args:
        placements: options of the generators, as in `conf/placements`.
        with_plain: forecast `none` as well.
        with_timelines: answer memory over the step of each placement as well.
        target: a GPU that need not be here, as in `conf/target`; None forecasts for the controls' own device.

    Raises:
        SpecError: the model, a placement or the target cannot be had as asked.
        WorkerError: the process broke, or gave no answer in time.
    """
    request = {
        "controls": to_mapping(controls),
        "placements": placements,
        "method": method,
        "with_plain": with_plain,
        "target": target,
        "with_timelines": with_timelines,
    }
    module, what = "bench.worker.forecast", "the forecast"
    return ask_process(module, request, controls, ForecastAnswer, what=what, timeout_s=timeout_s)


def forecast_study(directory: Path, study: StudySpec, watch: Watch, method: str) -> None:
    """Forecasts the placements that the study's `forecast.json` lacks, and adds them to it, and their memory over one
    step to `timelines.json`.

    It stands beside what is measured, so nothing that fails in it ends a study: that is told, and noted in the file, so
    that it is not tried again each time.
    """
    there = read_forecasts(directory)
    texts = unforecast(study, there)
    if method == OFF or not texts:
        return
    label = f"forecasting {len(texts)} placement{'' if len(texts) == 1 else 's'}"
    watch(Progress(done=0, total=0, label=label, seconds_left=None))
    try:
        answer = ask_forecasts(
            study.controls, {"explicit": texts}, method=method, with_timelines=True, timeout_s=STUDY_TIMEOUT_S
        )
        found, timelines = answer.forecasts, answer.timelines
    except (SpecError, WorkerError) as error:
        timelines = {}
        found = Forecasts(missing=dict.fromkeys(texts, " ".join(str(error).split())))
    if found.missing:
        why = next(iter(found.missing.values()))
        _tell(watch, label, f"no forecast of {len(found.missing)} of {len(texts)}: {why}")
    try:
        write_forecasts(directory, there.joined(found))
        if timelines:
            write_timelines(directory, read_timelines(directory).joined(timelines))
    except CannotWriteError as error:
        _tell(watch, label, str(error))


def unforecast(study: StudySpec, there: Forecasts) -> list[str]:
    """Placements that were not tried yet; none of a step that is somebody's own, which only its script can build."""
    if study.controls.model.target == OWN_TARGET:
        return []
    known = there.placements.keys() | there.missing.keys()
    return [entry.text for entry in study.placements if entry.text not in known]


def _tell(watch: Watch, label: str, message: str) -> None:
    watch(Progress(done=0, total=0, label=label, seconds_left=None, message=message))
