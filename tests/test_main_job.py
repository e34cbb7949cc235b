"""The main job as a person runs it: real models, workers, plots and MLflow store, with the network cut off."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.records import MemorySample, TimeSample, read_records
from bench.track.connect import import_mlflow

REPOSITORY = Path(__file__).parents[1]
ONE_ROUND = ("protocol.rounds_min=1", "protocol.rounds_max=1", "protocol.warmup_steps_max=1")
TOY = ("model=gpt2-tiny", "model.target=tests.families.toy", "audit=off")  # the toy counts its own passes


def bench(results: Path, *overrides: str, offline: bool = False) -> subprocess.CompletedProcess[str]:
    cut_off = ("unshare", "-n") if offline else ()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    return subprocess.run(
        [*cut_off, sys.executable, "-m", "bench", *overrides, f"results={results}"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def can_cut_the_network() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


def only_study(results: Path) -> Path:
    (study,) = results.glob("*/study.json")
    return study.parent


def runs_of(results: Path) -> list[Any]:
    import_mlflow()
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{results / 'mlflow.db'}")
    experiments = [e.experiment_id for e in client.search_experiments() if e.name != "Default"]
    return list(client.search_runs(experiments))


def test_a_sweep_without_a_network_ends_in_a_frontier_plots_and_mlflow_runs(tmp_path: Path) -> None:
    done = bench(tmp_path, "sweep", "model=gpt2-tiny", f"out={tmp_path / 'out.json'}", offline=can_cut_the_network())
    assert done.returncode == 0, done.stderr
    study = only_study(tmp_path)
    assert f"study: {study}" in done.stdout
    assert f"plot:  {study}/plots/frontier.png" in done.stdout
    assert "bench ui" in done.stdout
    for name in ("frontier.json", "frontier.csv", "environment.json", "plots/frontier.svg", "plots/strip.png"):
        assert (study / name).stat().st_size > 0
    frontier = json.loads((tmp_path / "out.json").read_text())["frontier"]
    assert {trial["outcome"] for trial in frontier["trials"]} == {"ok"}
    assert frontier["frontier"]
    assert min(t["peak_allocated_bytes"] for t in frontier["trials"]) < frontier["trials"][0]["peak_allocated_bytes"]
    names = {run.info.run_name for run in runs_of(tmp_path)}
    assert names == {study.name} | {trial["placement"] for trial in frontier["trials"]}


def test_failures_are_rows_without_a_metric_and_the_exit_code_is_1(tmp_path: Path) -> None:
    placements = "placements.explicit=[none,blocks.1,blocks.2]"
    done = bench(tmp_path, "sweep", *TOY, "+model.settings.fault=segmentation-fault", placements)
    assert done.returncode == 1, done.stderr
    assert "blocks.1: crashed: the worker died by SIGSEGV" in done.stderr
    runs = {run.info.run_name: run for run in runs_of(tmp_path)}
    assert runs["blocks.1"].data.metrics == {}
    assert runs["blocks.1"].data.tags["outcome"] == "crashed"
    assert runs["blocks.2"].data.metrics["memory/peak_allocated_bytes"] > 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["placements.explicit=[transformer.h.0..9:each]"], "no transformer.h.4; there are transformer.h.0..3"),
        (["placements.explicit=[transfomer.h.0]"], "did you mean transformer.h.0"),
        (["placements.explicit=[transformer.h.0@norng]"], "did you mean @no-rng?"),
        (["+model.settings.depth=3"], "model.settings.depth: no such setting of models.gpt2"),
        (["placements.policies=[matmull]"], "torch has no op 'matmull' to keep; did you mean"),
        (["+workload.shape.width=3"], "workload.shape.width: no such size; there are sequence_length"),
        (["device.threads=1000"], "device.threads: 1000, but this process may use"),
        (["workload.shape.sequence_length=4096"], "4096 is beyond model.settings.positions"),
        (["optimizer=sgd", "+optimizer.settings.momentun=0.9"], "optimizer.settings: sgd refuses"),
        (["parallelism.world_size=2"], "only 1 runs today"),
    ],
)
def test_a_wrong_request_exits_2_and_says_what_to_do(tmp_path: Path, overrides: list[str], message: str) -> None:
    done = bench(tmp_path, "sweep", "model=gpt2-tiny", *overrides)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*/study.json"))


def test_explicit_placements_pass_through_make_bare(tmp_path: Path) -> None:
    text = "blocks.0..1:each+blocks.2..3"
    done = subprocess.run(
        [
            "make",
            "sweep",
            "MODEL=gpt2-tiny",
            f"ARGS=placements.explicit=[{text},none] {' '.join(TOY[1:])} results={tmp_path} tracker=none",
            f"BENCH={sys.executable} -m bench",
            "INSTALLED=",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = read_records(only_study(tmp_path))
    assert {sample.placement for sample in records.of(TimeSample)} == {text, "none"}


@pytest.mark.slow
def test_a_multirun_gives_a_study_for_every_combination_with_keys_of_their_own(tmp_path: Path) -> None:
    done = bench(
        tmp_path, "sweep", "-m", "model=gpt2-tiny,t5-tiny", "precision=fp32,bf16-autocast",
        "placements.explicit=[none]", *ONE_ROUND, "tracker=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    studies = [path.parent for path in tmp_path.glob("*/study.json")]
    assert sorted(study.name.rpartition("-")[0] for study in studies) == ["gpt2-tiny"] * 2 + ["t5-tiny"] * 2
    assert len({json.loads((study / "study.json").read_text())["key"] for study in studies}) == 4
    assert all(read_records(study).of(MemorySample) for study in studies)


@pytest.mark.slow
def test_two_runs_of_a_study_give_equal_peaks(tmp_path: Path) -> None:
    peaks = []
    for results in (tmp_path / "first", tmp_path / "second"):
        done = bench(results, "sweep", "model=t5-tiny", "tracker=none", *ONE_ROUND)
        assert done.returncode == 0, done.stderr
        records = read_records(only_study(results))
        peaks.append({s.placement: s.peak_allocated_bytes for s in records.of(MemorySample)})
    assert peaks[0] == peaks[1]
    assert len(peaks[0]) == 4
