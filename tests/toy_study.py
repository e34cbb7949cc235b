"""Real studies of the toy family, small enough to run in seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.placement import placement_id
from bench.records import Records, TimeSample, read_records
from bench.spec import (
    Caps,
    ChainInfo,
    Controls,
    DeviceSpec,
    ModelSpec,
    OptimizerSpec,
    PlacementEntry,
    ProtocolSpec,
    StudySpec,
    WorkloadSpec,
    control_key,
)
from bench.study import run_study
from bench.worker.probe import device_facts
from tests.builders import make_controls

EACH = "blocks.0..3:each"
PROTOCOL = ProtocolSpec(rounds_min=3, rounds_max=3, warmup_steps_min=0, warmup_steps_max=0)


def toy_controls(fault: str = "", **changed: Any) -> Controls:
    controls = make_controls(
        model=ModelSpec(name="toy", target="tests.families.toy", settings={"layers": 4, "width": 32, "fault": fault}),
        workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 16}),
        optimizer=OptimizerSpec(settings={"lr": 1e-3}),
        device=DeviceSpec(kind="cpu", openmp={"GOMP_SPINCOUNT": "10000"}),
        protocol=PROTOCOL,
    )
    controls = dataclasses.replace(controls, **changed)
    return dataclasses.replace(controls, facts=device_facts(controls, torch.device("cpu")))


def toy_study(
    placements: Sequence[str] = ("none", EACH), controls: Controls | None = None, caps: Caps | None = None
) -> StudySpec:
    controls = controls or toy_controls()
    return StudySpec(
        name="toy",
        key=control_key(controls),
        controls=controls,
        placements=tuple(
            PlacementEntry(text=text, id=placement_id(text), generators=("explicit",)) for text in placements
        ),
        chains=(ChainInfo(name="blocks", units=tuple(f"blocks.{i}" for i in range(4))),),
        caps=caps or Caps(sample_timeout_s=60.0),
    )


def run(study: StudySpec, results: Path) -> tuple[Path, Records]:
    directory = run_study(study, results, watch=lambda event: None)
    return directory, read_records(directory)


def samples_taken(records: Records) -> list[tuple[int, str, int, str]]:
    return [(s.execution, s.process, s.round, s.placement) for s in records.of(TimeSample)]
