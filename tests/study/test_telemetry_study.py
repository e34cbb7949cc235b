"""Telemetry of a study that is really measured."""

import json
from pathlib import Path

import pynvml
import pytest

from bench.device import NvmlUnavailableError, gpu_at
from bench.records import Records, RoundDiscarded, RoundDone, TimeSample, read_records
from bench.spec import Controls, DeviceSpec, StudySpec
from bench.study import run_study
from bench.study.telemetry import Sampler, read_telemetry, recording
from bench.study.telemetry.nvml import NvmlSampler
from bench.study.telemetry.rounds import round_spans
from tests.builders import make_controls
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.toy_study import EACH, toy_study


@pytest.fixture
def measured(unlocked_study: tuple[StudySpec, Path]) -> tuple[Path, Records]:
    directory = unlocked_study[1]
    return directory, read_records(directory)


def test_the_cores_are_watched_from_the_start_of_the_worker_to_its_end(measured: tuple[Path, Records]) -> None:
    directory, records = measured
    telemetry = read_telemetry(directory)
    assert [event.values["event"] for event in telemetry.events] == ["start", "end"]
    times = [sample.unix_time_s for sample in telemetry.samples]
    assert telemetry.events[0].unix_time_s <= records.entries[0].unix_time_s
    assert telemetry.events[-1].unix_time_s >= records.entries[-1].unix_time_s
    assert times == sorted(times)
    assert sum(float(sample.values.get("own_share", 0.0)) for sample in telemetry.samples) > 0


def test_every_round_has_its_span(measured: tuple[Path, Records]) -> None:
    records = measured[1]
    assert [span.round for span in round_spans(records)] == [done.round for done in records.of(RoundDone)]


def test_a_summary_stands_beside_the_records(measured: tuple[Path, Records]) -> None:
    directory, records = measured
    summary = json.loads((directory / "telemetry.json").read_text())
    assert summary["rounds"] == len(records.of(RoundDone))
    assert summary["recorder"]["wall_s"] > 0


def test_a_gpu_that_nvml_does_not_know_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NvmlUnavailableError("NVML: Driver Not Loaded")

    monkeypatch.setattr("bench.study.telemetry.session.open_nvml", refuse)
    with recording(tmp_path, make_controls(device=DeviceSpec(kind="cuda")), problems=("no lock",)):
        pass
    (problem,) = [event.values["problem"] for event in read_telemetry(tmp_path).events if "problem" in event.values]
    assert problem == "no lock; the GPU was not watched: NVML: Driver Not Loaded"


@pytest.mark.slow
@pytest.mark.parametrize("cools_down", [True, False])
def test_rounds_on_a_gpu_that_was_too_hot_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cools_down: bool
) -> None:
    """A real study beside a GPU that is hot during the first worker, or always."""
    workers: list[int] = []

    def samplers(controls: Controls) -> tuple[list[Sampler], dict[str, str | int | float]]:
        is_hot = not workers or not cools_down
        workers.append(len(workers))
        events = pynvml.nvmlClocksEventReasonHwThermalSlowdown if is_hot else 0
        nvml = FakeNvml(FakeGpu(clock_events=events))
        return [NvmlSampler(nvml, gpu_at(nvml, "00000000:1B:00.0"), lambda: ())], {}

    monkeypatch.setattr("bench.study.telemetry.session._samplers", samplers)
    directory = run_study(toy_study(("none", EACH)), tmp_path, watch=lambda event: None)
    records = read_records(directory)
    discarded = {record.round for record in records.of(RoundDiscarded)}
    kept = {sample.round for sample in records.of(TimeSample)} - discarded
    assert (len(workers), len(discarded), len(kept)) == (2, 3, 3)
    notes = json.loads((directory / "telemetry.json").read_text())["notes"]
    assert any("3 of 3 rounds that count" in note for note in notes) is not cools_down
