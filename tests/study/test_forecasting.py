"""Forecasts of a study, made by the real process before anything is timed, and what becomes of them where they fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.frontier import build_frontier, load_frontier
from bench.records import FORECAST_FILE, MemorySample, read_forecasts, read_records, read_study
from bench.records.forecast import CHECKED, FAKE
from bench.spec import OFF, Controls, ModelSpec, StudySpec, WorkloadSpec
from bench.study import Progress, run_study
from bench.study.forecasting import ask_forecasts, forecast_study
from tests.toy_study import EACH, toy_controls, toy_study

SPAN = "blocks.0..1"
PLACEMENTS = ("none", EACH, SPAN)
READS_VALUES = """
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if float(x.sum()) > 1e9:
                x = x / 2
        return x.sum()


def build():
    return Gate()


def batch(model, workload):
    return torch.ones(workload.micro_batch, 256, 8)


def loss(model, batch):
    return model(batch)
"""
BREAKS = """
import os, sys
if "bench.worker.forecast" in sys.orig_argv:
    os._exit(3)
"""


def measured(study: StudySpec, results: Path, forecast: str = CHECKED) -> tuple[Path, list[str]]:
    """The study's directory, and what was told that must not be overwritten."""
    told: list[str] = []

    def watch(event: Progress) -> None:
        if event.message:
            told.append(event.message)

    return run_study(study, results, watch, forecast=forecast), told


def forecast_alone(study: StudySpec, directory: Path, method: str = FAKE) -> list[str]:
    told: list[str] = []
    directory.mkdir(parents=True, exist_ok=True)
    forecast_study(directory, study, lambda event: told.append(event.message) if event.message else None, method)
    return told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study measured with its forecasts, of which nothing was to be told. Tests leave it as it is."""
    directory, told = measured(toy_study(PLACEMENTS), tmp_path_factory.mktemp("whole"))
    assert told == []
    return directory


def test_every_forecast_of_a_study_is_its_measured_peak(whole: Path) -> None:
    directory, study = whole, read_study(whole)
    records = read_records(directory)
    peaks = {sample.placement: sample.peak_allocated_bytes for sample in records.of(MemorySample)}
    forecasts = {text: f.peak_allocated_bytes for text, f in records.forecasts.placements.items()}
    assert set(forecasts) == set(peaks)
    for text, peak in peaks.items():  # autograd saves a few scalars whose 8 bytes fake tensors do not have
        assert abs(forecasts[text] - peak) <= 100, text
    for trial in build_frontier(study, records).trials:
        assert trial.forecast_error_share is not None
        assert abs(trial.forecast_error_share) < 0.01
    assert not [note for note in load_frontier(directory).notes if "forecast" in note]


def test_an_extended_study_forecasts_what_is_new_and_then_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, study = tmp_path, toy_study(PLACEMENTS)
    first = json.loads((whole / FORECAST_FILE).read_text())
    del first["placements"][SPAN]
    first["placements"]["none"]["peak_allocated_bytes"] = 7
    (directory / FORECAST_FILE).write_text(json.dumps(first))
    forecast_alone(study, directory)
    found = read_forecasts(directory).placements
    assert set(found) == {"none", EACH, SPAN}
    assert found["none"].peak_allocated_bytes == 7, "what was there was not made again"
    monkeypatch.setattr("bench.study.forecasting.ask_process", None)  # a third would call it
    assert forecast_alone(study, directory) == []


def test_off_forecasts_nothing(tmp_path: Path) -> None:
    assert forecast_alone(toy_study(), tmp_path / "study", OFF) == []
    assert not (tmp_path / "study" / FORECAST_FILE).exists()


def test_a_damaged_file_is_noted_and_made_anew(tmp_path: Path) -> None:
    directory, study = tmp_path / "study", toy_study(("none", EACH))
    directory.mkdir()
    (directory / FORECAST_FILE).write_text('{"schema_version": 1, "placem')
    (note,) = build_frontier(study, read_records(directory)).notes[-1:]
    assert note.startswith("forecast.json cannot be read (")
    forecast_alone(study, directory)
    assert set(read_forecasts(directory).placements) == {"none", EACH}
    assert read_forecasts(directory).problem is None


def custom_controls(tmp_path: Path, source: str) -> Controls:
    file = tmp_path / "my_model.py"
    file.write_text(source)
    return toy_controls(model=ModelSpec(name="gate", target=str(file)), workload=WorkloadSpec(micro_batch=2))


def test_a_model_that_fake_tensors_cannot_follow_is_measured_without_forecast_and_says_why(tmp_path: Path) -> None:
    study = toy_study(("none", "blocks.0..1:each"), custom_controls(tmp_path, READS_VALUES))
    directory, told = measured(study, tmp_path / "results")
    assert len(told) == 1
    assert told[0].startswith("no forecast of 2 of 2: fake tensors cannot follow this model: ")
    frontier = load_frontier(directory)
    assert [trial.outcome for trial in frontier.trials] == ["ok", "ok"]
    assert [trial.forecast_peak_bytes for trial in frontier.trials] == [None, None]
    assert (
        sum(note.startswith("no forecast of 2 placements: fake tensors cannot follow") for note in frontier.notes) == 1
    )
    assert forecast_alone(study, directory) == [], "it is told once, and not tried each time"


def test_a_placement_that_is_refused_leaves_the_others_their_forecast() -> None:
    controls = toy_controls()
    answer = ask_forecasts(controls, {"explicit": ["blocks.0/blocks.2", EACH]}, method=FAKE, with_plain=True)
    assert [entry.text for entry in answer.placements] == ["none", "blocks.0/blocks.2", EACH]
    assert set(answer.forecasts.placements) == {"none", EACH}
    assert set(answer.forecasts.missing) == {"blocks.0/blocks.2"}
    assert answer.facts is not None
    assert controls.facts is not None
    assert answer.facts.device_name == controls.facts.device_name


def test_a_process_that_breaks_harms_no_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(BREAKS)
    study = toy_study(("none", EACH))
    directory, told = measured(study, tmp_path / "results")
    assert told == ["no forecast of 2 of 2: the forecast ended with exit code 3:"]
    assert [trial.outcome for trial in load_frontier(directory).trials] == ["ok", "ok"]


def test_where_none_does_not_fit_its_forecast_stands_in_its_place(tmp_path: Path) -> None:
    """`none` runs out of memory when it is first run; its forecast stands in its place."""
    study = toy_study(("none", EACH), toy_controls("plain.1:out-of-memory"))
    directory, _ = measured(study, tmp_path)
    frontier = load_frontier(directory)
    assert {trial.placement: trial.outcome for trial in frontier.trials} == {"none": "oom", EACH: "ok"}
    assert frontier.plain_forecast is not None
    assert (
        frontier.plain_forecast.peak_allocated_bytes
        == read_forecasts(directory).placements["none"].peak_allocated_bytes
    )
