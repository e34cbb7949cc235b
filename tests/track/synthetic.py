"""Synthetic studies: specs, frontiers and directories, as the other rooms would leave them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.frontier.types import Frontier, Hypervolume, Interval, Trial
from bench.records import ExecutionStarted, OutcomeRecord, RecordWriter, TimeSample, study_path, write_json, write_study
from bench.spec import (
    Controls,
    DeviceSpec,
    Facts,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    PlacementEntry,
    ProtocolSpec,
    RecipeSpec,
    StudySpec,
    WorkloadSpec,
    control_key,
    to_mapping,
)

MIB = 2**20
FIRST_TIME_S = 1_750_000_000.25
OK_NAMES = ("none", "transformer.h.0..5:each", "transformer.h.0..11:every.2", "transformer.h.0..11:each")


def ok_trial(placement: str, index: int, *, on_frontier: bool = True) -> Trial:
    return Trial(
        placement=placement,
        id=f"id{index:06d}",
        generators=("every block", "explicit"),
        outcome="ok",
        rounds=5,
        executions=1,
        step_time_ms=1000.0 + 50 * index,
        time_ratio=1.0 + 0.05 * index,
        time_ratio_interval=Interval(low=0.99 + 0.05 * index, high=1.01 + 0.05 * index),
        verdict="slower" if index else None,
        verdict_reason="the whole interval lies above 1" if index else "",
        steadiness="flat",
        spread_within=0.01,
        peak_allocated_bytes=(3000 - 10 * index) * MIB,
        persistent_bytes=1500 * MIB,
        retained_bytes=(1000 - 10 * index) * MIB,
        step_flops=10**12 + index,
        replay_flops=index,
        replay_ops=index,
        on_frontier=on_frontier,
        frontier_confidence=0.9,
    )


def failed_trial(placement: str, index: int, outcome: str = "oom", reason: str = "out of memory") -> Trial:
    return Trial(placement=placement, id=f"id{index:06d}", generators=("explicit",), outcome=outcome, reason=reason)


def ok_trials(count: int = 4) -> tuple[Trial, ...]:
    names = [*OK_NAMES, *(f"transformer.h.{index}" for index in range(count))][:count]
    return tuple(ok_trial(name, index) for index, name in enumerate(names))


def make_controls(model: str = "gpt2", device: str = "Test CPU @ 2.0GHz") -> Controls:
    return Controls(
        model=ModelSpec(name=model, target="models.gpt2", settings={"dropout": 0.0}),
        workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 256}),
        optimizer=OptimizerSpec(),
        recipe=RecipeSpec(),
        precision="fp32",
        parallelism=ParallelismSpec(),
        device=DeviceSpec(kind="cpu"),
        protocol=ProtocolSpec(),
        facts=Facts(device_name=device, versions={"torch": "2.13.0"}),
    )


def make_study(trials: tuple[Trial, ...], *, model: str = "gpt2", device: str = "Test CPU @ 2.0GHz") -> StudySpec:
    controls = make_controls(model, device)
    return StudySpec(
        name=model,
        key=control_key(controls),
        controls=controls,
        placements=tuple(PlacementEntry(text=t.placement, id=t.id, generators=t.generators) for t in trials),
        chains=(),
        recorded={"git_commit": "0123abc"},
    )


def make_frontier(results: Path, study: StudySpec, trials: tuple[Trial, ...]) -> Frontier:
    measured = [trial for trial in trials if trial.outcome == "ok"]
    return Frontier(
        study=study_path(results, study).name,
        key=study.key,
        model=study.controls.model.name,
        device=study.controls.facts.device_name if study.controls.facts else "",
        reference=measured[0].placement if measured else None,
        trials=trials,
        frontier=tuple(trial.placement for trial in measured if trial.on_frontier),
        knee=measured[-1].placement if measured else None,
        hypervolume=Hypervolume(value=0.5, time_ratio_bound=2.0, peak_ratio_bound=1.1) if measured else None,
        drift=None,
        capacity_bytes=None,
        notes=("The time cap was hit after 5 rounds.",),
        controls=flat(to_mapping(study.controls)),
    )


def flat(value: object, prefix: str = "") -> dict[str, object]:
    if isinstance(value, dict) and value:
        merged: dict[str, object] = {}
        for key, item in value.items():
            merged |= flat(item, f"{prefix}.{key}" if prefix else key)
        return merged
    return {prefix: value}


def write_directory(results: Path, study: StudySpec, frontier: Frontier) -> Path:
    """A study directory with records, one a trial, a table and a plot."""
    directory = study_path(results, study)
    write_study(directory, study)
    write_json(directory / "environment.json", {"host": "test"})
    write_json(directory / "frontier.json", to_mapping(frontier))
    (directory / "frontier.csv").write_text("placement\n" + "\n".join(frontier.frontier) + "\n")
    (directory / "plots").mkdir(exist_ok=True)
    (directory / "plots" / "frontier.svg").write_text("<svg/>")
    (directory / "samples.jsonl").unlink(missing_ok=True)
    writer = RecordWriter(directory)
    process = {"execution": 0, "process": "feed0123"}
    writer.append(
        ExecutionStarted(**process, unix_time_s=FIRST_TIME_S, placements=tuple(t.placement for t in frontier.trials))
    )
    for index, trial in enumerate(frontier.trials):
        at = process | {"unix_time_s": FIRST_TIME_S + 10.0 * (index + 1), "placement": trial.placement}
        if trial.outcome == "ok":
            writer.append(
                TimeSample(
                    **at, round=0, position=index, step_times_ms=(1.0,), wall_ms=1.0, optimizer_steps=1, batch_digest=""
                )
            )
        elif trial.outcome != "pending":
            writer.append(OutcomeRecord(**at, outcome=trial.outcome, reason=trial.reason, stage="time"))
    writer.close()
    return directory


def make_all(
    results: Path, trials: tuple[Trial, ...], *, model: str = "gpt2", device: str = "Test CPU @ 2.0GHz"
) -> tuple[Path, StudySpec, Frontier]:
    study = make_study(trials, model=model, device=device)
    frontier = make_frontier(results, study, trials)
    return write_directory(results, study, frontier), study, frontier


def off_frontier(trial: Trial) -> Trial:
    return replace(trial, on_frontier=False)
