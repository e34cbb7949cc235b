"""A prepared study holds what it measured against a forecast from elsewhere: here one made on fake tensors."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.records import MemorySample, read_records
from bench.spec import Controls, from_mapping, to_mapping
from bench.study.against_forecast import COMPARISON_FILE, PEAKS, workspaces
from bench.study.prepared import main
from bench.target.reference import FILE, PLACEMENTS, PRECISIONS, controls
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.log import read_log
from tests.study.test_prepared import PREPARED
from tests.toy_study import EACH, toy_controls

UNITS = [f"blocks.{index}" for index in range(4)]


def write_forecast(folder: Path) -> None:
    forecaster = Forecaster(FakeStep(toy_controls(), torch.device("cpu")), UNITS, model="toy")
    rows = [dataclasses.asdict(forecaster.by_fake_step(text)[0]) for text in ("none", EACH)]
    (folder / "forecast.json").write_text(json.dumps({"forecasts": {"fp32": rows}}))


def write_prepared(folder: Path, **against: Any) -> Path:
    data = {
        "controls": to_mapping(toy_controls()) | {"facts": None},
        "placements": {"explicit": ["none", EACH]},
        "caps": {"time_cap_s": 60.0},
        "audit": "off",  # the toy counts its own passes, which is state that moves
        "against": {"forecast": "forecast.json", "record": ["none", EACH]} | against,
    }
    path = folder / "prepared.json"
    path.write_text(json.dumps(data))
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    write_forecast(folder)
    assert main([str(write_prepared(folder)), str(folder / "results")]) == 0
    (found,) = (folder / "results").iterdir()
    return found


@pytest.fixture(scope="module")
def compared(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((study / COMPARISON_FILE).read_text())
    assert found["not_recorded"] is None
    return found


def test_every_peak_is_told_beside_its_forecast(study: Path, compared: dict[str, Any]) -> None:
    samples = {sample.placement: sample for sample in read_records(study).of(MemorySample)}
    assert set(compared["placements"]) == set(samples) == {"none", EACH}
    for text, told in compared["placements"].items():
        assert told["measured"] == {name: getattr(samples[text], name) for name in PEAKS}
        off = told["forecast_minus_measured_bytes"]
        assert off["persistent_bytes"] == 0
        assert off["peak_allocated_bytes"] == (
            told["forecast"]["peak_allocated_bytes"] - told["measured"]["peak_allocated_bytes"]
        )
        assert abs(told["error_share"]) <= 0.01
        assert "peak_requested_bytes" not in off  # the CPU's allocator counts none


def test_the_recorded_step_has_the_measured_peak(study: Path, compared: dict[str, Any]) -> None:
    for told in compared["placements"].values():
        assert told["recorded"]["peak_bytes"] == told["measured"]["peak_allocated_bytes"]
        assert told["recorded"]["persistent_bytes"] == told["measured"]["persistent_bytes"]
        log = read_log(study / told["recorded"]["log"])
        assert not log.is_fake
        assert told["recorded"]["workspaces"] == workspaces(log)


def test_blocks_that_no_tensor_was_seen_on_are_listed_by_op_the_largest_first(
    study: Path, compared: dict[str, Any]
) -> None:
    log = read_log(study / compared["placements"]["none"]["recorded"]["log"])
    made, other = [index for index, s in enumerate(log.storages) if s.birth is not None and s.op >= 0][:2]
    unseen = {made: 2**40, other: 2**41}
    storages = tuple(
        dataclasses.replace(s, shape=None, size_bytes=unseen[index]) if index in unseen else s
        for index, s in enumerate(log.storages)
    )
    found = workspaces(dataclasses.replace(log, storages=storages))
    assert next(iter(found.values()))["largest_bytes"] == 2**41
    assert sum(row["num"] for row in found.values()) == sum(row["num"] for row in workspaces(log).values()) + 2


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ({"forecast": "nowhere.json"}, "against.forecast: {folder}/nowhere.json holds no forecasts in fp32"),
        ({"record": ["blocks.0"]}, "against.record: blocks.0 is not measured; there are blocks.0..3:each, none"),
        ({"record": ["none"] * 4}, "against.record: 4 placements, at most 3 are recorded"),
        ({"records": []}, "against.records: no such option"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_measured(
    tmp_path: Path, against: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_forecast(tmp_path)
    assert main([str(write_prepared(tmp_path, **against)), str(tmp_path / "results")]) == 2
    assert said.format(folder=tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_gpu_study_measures_what_was_forecast() -> None:
    """Other controls than those of the forecast would compare apples and pears."""
    (path,) = PREPARED.glob("*-memory-*.json")
    data = json.loads(path.read_text())
    measured, forecast = from_mapping(Controls, data["controls"]), controls(data["controls"]["precision"])
    assert measured.precision in PRECISIONS
    for name in ("workload", "optimizer", "recipe", "precision", "parallelism"):
        assert getattr(measured, name) == getattr(forecast, name)
    assert {"none", *data["placements"]["explicit"]} == set(PLACEMENTS)
    assert (path.parent / data["against"]["forecast"]).resolve() == (PREPARED.parents[1] / FILE).resolve()
