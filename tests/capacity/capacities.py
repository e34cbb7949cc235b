"""Specs and runs of capacity searches for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.capacity.axis import asked_axis, bound_of, start_size
from bench.capacity.key import capacity_key
from bench.capacity.store import CapacityRecords, capacity_path, read_answer, read_capacity_records
from bench.capacity.types import ASKED, MICRO_BATCH, Answer, Capacity, CapacitySpec
from bench.placement import placement_id
from bench.spec import (
    OFF,
    ChainInfo,
    Controls,
    DeviceSpec,
    ModelSpec,
    OptimizerSpec,
    PlacementEntry,
    ProtocolSpec,
    WorkloadSpec,
)
from bench.study.capacity import run_capacity
from bench.worker.probe import device_facts
from tests.builders import make_controls

MIB = 2**20
EACH = "blocks.0..2:each"


def entries_of(*texts: str) -> tuple[PlacementEntry, ...]:
    return tuple(
        PlacementEntry(text=text, id=placement_id(text), generators=("none" if text == "none" else "explicit",))
        for text in texts
    )


def make_spec(controls: Controls | None = None, axis: str = "micro-batch", **changed: Any) -> CapacitySpec:
    """A search of `none` alone that times nothing and audits nothing; any field can be changed."""
    controls = controls or make_controls()
    found = asked_axis(axis, controls, changed.pop("multiple", None))
    keep, limit = changed.get("keep", MICRO_BATCH), changed.pop("limit_bytes", 100 * MIB)
    headroom, evaluation = changed.get("headroom", 0.0), changed.get("evaluation", False)
    spec = CapacitySpec(
        name=controls.model.name,
        key=capacity_key(
            controls,
            found,
            limit_bytes=limit,
            limit_source=ASKED,
            headroom=headroom,
            keep=keep,
            evaluation=evaluation,
        ),
        controls=controls,
        axis=found,
        start=start_size(found, controls),
        limit_bytes=limit,
        limit_source=ASKED,
        largest=bound_of(found, controls, keep, changed.pop("largest", None)),
        placements=entries_of("none"),
        chains=(ChainInfo(name="blocks", units=("blocks.0", "blocks.1", "blocks.2")),),
        rounds=0,
        audit=OFF,
        probe_timeout_s=60.0,
    )
    return dataclasses.replace(spec, **changed)


def limited_controls(**settings: Any) -> Controls:
    """Of `tests.capacity.limited_model`, facts included."""
    controls = make_controls(
        model=ModelSpec(name="limited", target="tests.capacity.limited_model", settings={"width": 32, **settings}),
        workload=WorkloadSpec(micro_batch=4),
        optimizer=OptimizerSpec(settings={"lr": 1e-3}),
        device=DeviceSpec(kind="cpu", openmp={"GOMP_SPINCOUNT": "10000"}),
        protocol=ProtocolSpec(rounds_min=3, rounds_max=3, warmup_steps_min=0, warmup_steps_max=0),
    )
    return with_facts(controls)


def with_facts(controls: Controls) -> Controls:
    return dataclasses.replace(controls, facts=device_facts(controls, torch.device("cpu")))


@dataclasses.dataclass(frozen=True)
class Ran:
    directory: Path
    answer: Answer
    records: CapacityRecords
    said: Sequence[str]

    def row(self, placement: str = "none") -> Capacity:
        return next(row for row in self.answer.rows if row.placement == placement)


def run_spec(spec: CapacitySpec, results: Path) -> Ran:
    said: list[str] = []
    directory = run_capacity(spec, results, watch=lambda event: said.append(event.message or event.label))
    assert directory == capacity_path(results, spec)
    return Ran(directory, read_answer(directory), read_capacity_records(directory), said)
