"""Synthetic studies and records, for tests that need no model and no worker."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.records import (
    AuditRecord,
    ExecutionStarted,
    MemorySample,
    OutcomeRecord,
    Record,
    Records,
    RoundDone,
    Stopped,
    TimeSample,
)
from bench.spec import (
    ChainInfo,
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
)

RoundTime = float | Sequence[float] | None
"""Step time in ms of one sample, or the times of several steps; None where the placement is not in the round."""

MIB = 2**20
CAPACITY_BYTES = 2**34


def make_controls(**changed: Any) -> Controls:
    """Probed controls of a toy model on a CPU; any field of Controls can be changed."""
    controls = Controls(
        model=ModelSpec(name="toy", target="models.toy", settings={"layers": 2}),
        workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 16}),
        optimizer=OptimizerSpec(),
        recipe=RecipeSpec(),
        precision="fp32",
        parallelism=ParallelismSpec(),
        device=DeviceSpec(kind="cpu"),
        protocol=ProtocolSpec(),
        facts=Facts(device_name="Toy CPU", versions={"torch": "2.13.0"}, attention_kernels=("flash",)),
    )
    return dataclasses.replace(controls, **changed)


def make_study(
    placements: Sequence[str] = ("none", "blocks.0", "blocks.0..1:each"),
    controls: Controls | None = None,
    **changed: Any,
) -> StudySpec:
    """A study of `placements`, keyed by its controls; any other field of StudySpec can be changed."""
    controls = controls or make_controls()
    study = StudySpec(
        name=controls.model.name,
        key=control_key(controls),
        controls=controls,
        placements=tuple(
            PlacementEntry(text=text, id=f"id-{text}", generators=("none" if text == "none" else "explicit",))
            for text in placements
        ),
        chains=(ChainInfo(name="blocks", units=("blocks.0", "blocks.1")),),
    )
    return dataclasses.replace(study, **changed)


def make_records(
    times: Mapping[str, Sequence[RoundTime]] | None = None,
    peaks: Mapping[str, int] | None = None,
    outcomes: Mapping[str, tuple[str, str]] | None = None,
    *,
    execution: int = 0,
    process: str | None = None,
    stopped: str | None = "tight",
    torn_round: int | None = None,
    first_round: int = 0,
    audited: bool = True,
) -> Records:
    """What one process of one execution writes. Join several processes or executions with `join_records`.

    Args:
        times: placement → one entry a round.
        peaks: placement → peak bytes, of one memory pass.
        outcomes: placement → (outcome, reason), written last.
        execution: index of the execution.
        process: id of the process; one of its own for each execution when left out.
        stopped: reason of the Stopped record at the end; None leaves it out, as a kill would.
        torn_round: this round has its samples but was never done.
        first_round: number of the first round; rounds of one execution are numbered through.
        audited: whether every weighed placement but `none` has a valid verdict.
    """
    times, peaks, outcomes = times or {}, peaks or {}, outcomes or {}
    origin: dict[str, Any] = {
        "execution": execution,
        "process": process if process is not None else f"process-{execution}",
        "unix_time_s": 0.0,
    }
    placements = tuple(dict.fromkeys((*peaks, *times)))
    rounds = max((len(of_placement) for of_placement in times.values()), default=0)
    entries: list[Record] = [
        ExecutionStarted(**origin, placements=placements, environment={"capacity_bytes": CAPACITY_BYTES})
    ]
    entries += (_valid(origin, placement) for placement in peaks if audited and placement != "none")
    entries += (_memory(origin, placement, peak) for placement, peak in peaks.items())
    for number in range(rounds):
        in_round = ((p, of_placement[number]) for p, of_placement in times.items() if number < len(of_placement))
        present = ((placement, time_ms) for placement, time_ms in in_round if time_ms is not None)
        named = first_round + number
        entries += [_time(origin, p, named, position, ms) for position, (p, ms) in enumerate(present)]
        if named != torn_round:
            entries.append(RoundDone(**origin, round=named))
    entries += (
        OutcomeRecord(**origin, placement=placement, outcome=outcome, reason=reason, stage="time")
        for placement, (outcome, reason) in outcomes.items()
    )
    if stopped is not None:
        entries.append(
            Stopped(
                **origin,
                placements=placements,
                rounds=rounds,
                reason=stopped,
                half_widths=dict.fromkeys(placements),
                measuring_s=1.0,
                wall_s=2.0,
            )
        )
    return Records(entries=tuple(entries))


def _valid(origin: dict[str, Any], placement: str) -> AuditRecord:
    return AuditRecord(
        **origin,
        placement=placement,
        key=f"key-{placement}",
        outcome="valid",
        trials=1,
        differing=0,
        tolerance=0,
        steps=2,
    )


def join_records(*records: Records, damaged_lines: Sequence[int] = ()) -> Records:
    """As one `samples.jsonl` that all of them were appended to."""
    return Records(
        entries=tuple(itertools.chain.from_iterable(part.entries for part in records)),
        damaged_lines=tuple(damaged_lines),
    )


def _memory(origin: Mapping[str, Any], placement: str, peak: int) -> MemorySample:
    return MemorySample(
        **origin,
        placement=placement,
        peak_allocated_bytes=peak,
        persistent_bytes=peak // 2,
        retained_bytes=peak // 4,
        peak_phase="backward",
        losses=(1.0, 1.0),
        optimizer_steps=2,
        batch_digest="batch",
        step_flops=1000,
        replay_flops=0 if placement == "none" else 300,
        step_ops=100,
        replay_ops=0 if placement == "none" else 30,
        attention_ops=("flash",),
        wall_s=0.1,
    )


def _time(origin: Mapping[str, Any], placement: str, number: int, position: int, time_ms: RoundTime) -> TimeSample:
    step_times_ms = (float(time_ms),) if isinstance(time_ms, (int, float)) else tuple(time_ms or ())
    return TimeSample(
        **origin,
        placement=placement,
        round=number,
        position=position,
        step_times_ms=step_times_ms,
        wall_ms=sum(step_times_ms),
        optimizer_steps=len(step_times_ms),
        batch_digest="batch",
    )
