"""The sweep from options to answer, with a probe and a runner that measure nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.cli import project as project_module, sweep as sweep_module
from bench.cli.main import main
from bench.frontier import Frontier
from bench.records import (
    MemorySample,
    OutcomeRecord,
    RecordWriter,
    Stopped,
    TimeSample,
    read_study,
    study_path,
    write_study,
)
from bench.report import write_plots
from bench.spec import ChainInfo, Controls, Facts, StudySpec, from_mapping, to_mapping
from bench.study import Progress, WorkerError

UNITS = tuple(f"transformer.h.{i}" for i in range(4))
ROUNDS = 4
Watch = Callable[[Progress], None]


FACTS = Facts(device_name="Some CPU", versions={"torch": "2.13.0"})


@dataclass(frozen=True)
class FakeProbe:
    facts: Facts = FACTS
    chains: tuple[ChainInfo, ...] = (
        ChainInfo(name="blocks", units=UNITS, kinds={"attention": ("attn",), "mlp": ("mlp",), "norm": ("ln_1",)}),
    )
    ops: tuple[str, ...] = ("attention", "matmul")
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = tuple(f"{unit}{part}" for unit in UNITS for part in ("", ".attn", ".mlp", ".ln_1"))


class FakeRunner:
    """Writes the records of a study whose placements named in `failing` have that outcome."""

    def __init__(self, failing: dict[str, str] | None = None) -> None:
        self.failing = failing or {}
        self.studies: list[StudySpec] = []
        self.forecasts: list[str] = []
        """How the placements of each study are to be forecast."""

    def __call__(self, study: StudySpec, results: Path, watch: Watch, forecast: str) -> Path:
        self.studies.append(study)
        self.forecasts.append(forecast)
        directory = study_path(results, study)
        write_study(directory, study)
        writer = RecordWriter(directory)
        for index, entry in enumerate(study.placements):
            watch(Progress(done=index, total=len(study.placements), label=entry.text, seconds_left=1.0, message=None))
            self._measure(writer, entry.text, index)
        writer.close()
        return directory

    def _measure(self, writer: RecordWriter, placement: str, index: int) -> None:
        shared = {"execution": 0, "process": "p", "unix_time_s": 0.0}
        if placement in self.failing:
            fate = OutcomeRecord(
                **shared, placement=placement, outcome=self.failing[placement], reason="made to", stage="memory"
            )
            return writer.append(fate)
        steps = {"optimizer_steps": 1, "batch_digest": "b"}
        writer.append(
            MemorySample(
                **shared,
                **steps,
                placement=placement,
                peak_allocated_bytes=1000 - 10 * index,
                persistent_bytes=500,
                retained_bytes=100,
                peak_phase="backward",
                losses=(1.0,),
                step_flops=100,
                replay_flops=index,
                step_ops=10,
                replay_ops=index,
                wall_s=0.1,
            )
        )
        for number in range(ROUNDS):
            step = 100.0 + 5 * index + number
            writer.append(
                TimeSample(
                    **shared,
                    **steps,
                    placement=placement,
                    round=number,
                    position=index,
                    step_times_ms=(step,),
                    wall_ms=step,
                )
            )
        return writer.append(
            Stopped(
                **shared, placements=(placement,), rounds=ROUNDS, reason="rounds", half_widths={placement: 0.01},
                measuring_s=1.0, wall_s=1.0,
            )
        )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    fake = FakeRunner()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_module, "probe_worker", lambda _: FakeProbe())
    monkeypatch.setattr(sweep_module, "run_study", fake)
    monkeypatch.setattr(project_module, "write_plots", write_an_empty_plot)
    return fake


def write_an_empty_plot(directory: Path, study: StudySpec, frontier: Frontier) -> list[Path]:
    """Drawing takes seconds and has tests of its own."""
    plot = directory / "plots" / "frontier.png"
    plot.parent.mkdir(exist_ok=True)
    plot.touch()
    return [plot]


def sweep(*overrides: str) -> int:
    return main(["sweep", "model=gpt2-tiny", "tracker=none", *overrides])


def test_a_whole_study_is_drawn_told_and_exits_0(
    runner: FakeRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("out=answer.json") == 0
    (study,) = runner.studies
    directory = study_path(tmp_path / "results", study)
    assert {"study.json", "samples.jsonl", "frontier.json", "frontier.csv", "plots"} <= {
        path.name for path in directory.iterdir()
    }
    said = capsys.readouterr().out
    plot = directory.relative_to(tmp_path) / "plots" / "frontier.png"
    assert f"plot:  {plot}" in said
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["exit_code"] == 0
    assert answer["study"] == str(directory)
    assert [trial["placement"] for trial in answer["frontier"]["trials"]] == [e.text for e in study.placements]


def test_the_study_has_the_probed_facts_and_is_named_after_the_model(runner: FakeRunner) -> None:
    sweep()
    (study,) = runner.studies
    assert study.name == "gpt2-tiny"
    assert study.controls.facts == FACTS
    assert study.chains == FakeProbe().chains
    assert study.caps.time_cap_s is not None
    assert from_mapping(Controls, to_mapping(study.controls)) == study.controls


@pytest.mark.parametrize("outcome", ["oom", "crashed", "error", "timeout", "hung"])
def test_a_placement_without_an_answer_makes_the_study_partial(runner: FakeRunner, outcome: str) -> None:
    runner.failing = {"transformer.h.0..3:each": outcome}
    assert sweep() == 1


@pytest.mark.parametrize("outcome", ["invalid", "no-effect"])
def test_an_invalid_placement_is_an_answer(runner: FakeRunner, outcome: str) -> None:
    runner.failing = {"transformer.h.0..3:each": outcome}
    assert sweep() == 0


def test_a_study_without_any_measured_placement_is_partial(runner: FakeRunner) -> None:
    runner.failing = {"none": "invalid"}
    assert sweep("placements.explicit=[none]") == 1


def test_explicit_placements_replace_the_others(runner: FakeRunner) -> None:
    sweep("placements.explicit=[transformer.h.0..1:each+transformer.h.2..3,none]")
    assert [entry.text for entry in runner.studies[0].placements] == [
        "transformer.h.0..1:each+transformer.h.2..3",
        "none",
    ]


def test_a_typo_in_a_path_exits_2_and_names_close_ones(runner: FakeRunner, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("placements.explicit=[transformer.h.0..3.mpl:each]") == 2
    assert "transformer.h.0.mlp" in capsys.readouterr().err
    assert runner.studies == []


def test_an_option_that_nothing_reads_exits_2(runner: FakeRunner, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("+placement.explicit=[none]") == 2
    assert "placement: no such option" in capsys.readouterr().err
    assert runner.studies == []


def test_a_reference_is_measured_even_if_no_generator_yields_it(runner: FakeRunner) -> None:
    sweep("placements.explicit=[none]", "reference=transformer.h.0..0+transformer.h.1")
    (study,) = runner.studies
    assert study.reference == "transformer.h.0..1:each"
    assert [entry.text for entry in study.placements] == ["transformer.h.0..1:each", "none"]


def test_a_worker_that_cannot_start_is_told_and_exits_1(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def probe(_: Controls) -> FakeProbe:
        raise WorkerError("the probe ended with exit code 1")

    monkeypatch.setattr(sweep_module, "probe_worker", probe)
    assert sweep() == 1
    assert capsys.readouterr().err == "boundary-bench: the probe ended with exit code 1\n"


def test_multirun_gives_a_study_for_every_combination(runner: FakeRunner) -> None:
    assert main(["sweep", "-m", "model=gpt2-tiny,t5-tiny", "precision=fp32,bf16-autocast", "tracker=none"]) == 0
    assert len({study.key for study in runner.studies}) == 4
    assert [study.name for study in runner.studies] == ["gpt2-tiny", "gpt2-tiny", "t5-tiny", "t5-tiny"]


def test_a_store_that_is_down_is_told_and_costs_nothing_that_was_measured(
    runner: FakeRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["sweep", "model=gpt2-tiny", f"tracker.uri=sqlite:///{tmp_path / 'file' / 'mlflow.db'}"]) == 1
    captured = capsys.readouterr()
    assert "not published" in captured.err
    assert "plot:" in captured.out


def test_a_store_that_cannot_be_is_refused_before_anything_is_measured(
    runner: FakeRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "model=gpt2-tiny", f"tracker.uri={tmp_path / 'folder'}"]) == 2
    assert "is a folder, and MLflow no longer keeps runs in folders" in capsys.readouterr().err
    assert main(["sweep", "model=gpt2-tiny", "tracker.name=wandb"]) == 2
    assert "tracker.name: 'wandb' is not one of mlflow, none" in capsys.readouterr().err
    assert not list(tmp_path.glob("results/*/study.json"))


def test_plots_are_redrawn_from_the_records(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep()
    monkeypatch.setattr(project_module, "write_plots", write_plots)
    directory = study_path(tmp_path / "results", runner.studies[0])
    for name in ("frontier.json", "frontier.csv", "plots/frontier.png"):
        (directory / name).unlink()
    assert main(["plots", f"study={directory.name}"]) == 0
    assert all((directory / name).is_file() for name in ("frontier.json", "frontier.csv", "plots/frontier.png"))


def test_a_damaged_study_is_named(runner: FakeRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep()
    directory = study_path(tmp_path / "results", runner.studies[0])
    study = read_study(directory)
    write_study(directory, dataclasses.replace(study, schema_version=99))
    assert main(["plots"]) == 2
    assert "schema_version 99" in capsys.readouterr().err


def test_the_store_is_made_published_to_and_named(
    runner: FakeRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main(["sweep", "model=gpt2-tiny"]) == 0
    assert (tmp_path / "results" / "mlflow.db").is_file()
    assert "-m bench ui" in capsys.readouterr().out
    assert main(["publish"]) == 0


def test_the_ui_of_an_empty_store_says_what_to_do_first(
    runner: FakeRunner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main(["ui"]) == 2
    assert "python -m bench sweep" in capsys.readouterr().err


def test_peaks_are_forecast_unless_that_is_off(runner: FakeRunner, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep() == sweep("forecast=off") == sweep("forecast=false") == 0
    assert runner.forecasts == ["checked", "off", "off"]
    assert len({study.key for study in runner.studies}) == 1, "it is no control"
    assert sweep("forecast=guess") == 2
    assert "forecast: 'guess' is not one of checked, fake, fast, off" in capsys.readouterr().err
