"""Steps on a GPU that is not there, printed as JSON; test_step.py runs it in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from bench.spec import ModelSpec, WorkloadSpec
from bench.step.interface import BACKWARD
from bench.target.reference import controls, load_target
from bench.target.step import TargetStep, as_allocated
from bench.trace.log import StepLog

EACH = "blocks.0..1:each"
GPT2 = {"layers": 3, "width": 128, "heads": 2, "vocabulary": 512, "positions": 256}
GPT2_PLACEMENTS = (
    "none",
    "transformer.h.0..2:each",
    "transformer.h.0..1",
    "transformer.h.0..2.mlp:each",
    "transformer.h.0..2:each:keep.attention",
)


def target_step(model: ModelSpec, precision: str, workload: WorkloadSpec) -> TargetStep:
    return TargetStep(dataclasses.replace(controls(precision), model=model, workload=workload), load_target("h200"))


def retained(log: StepLog) -> list[int]:
    """Bytes of what the step had made and still held as backward began, in order of size."""
    begin = next(mark.begin for mark in log.phases if mark.phase == BACKWARD)
    return sorted(log.storages[i].size_bytes for i in log.alive_at(begin) if log.storages[i].birth is not None)


def two_layers(precision: str) -> dict[str, Any]:
    model = ModelSpec(name="two-layers", target="tests.target.two_layers")
    step = target_step(model, precision, WorkloadSpec(micro_batch=32))
    logs = {placement: step.record(placement, None) for placement in ("none", EACH)}
    allocated, found = as_allocated(logs["none"])
    return {
        "retained": {placement: retained(log) for placement, log in logs.items()},
        "persistent": logs["none"].persistent_bytes,
        "library": [s.size_bytes for s in logs["none"].storages if s.role == "library"],
        "optimizer": [op.name for op in logs["none"].ops if op.phase == "optimizer"],
        "device": logs["none"].device,
        "peak of allocated blocks": allocated.peak()[0],
        "peak that the allocator reports": found.peaks.allocated_bytes,
        "persistent of allocated blocks": allocated.persistent_bytes,
        "persistent that the allocator reports": found.peaks.persistent_bytes,
    }


def gpt2(precision: str) -> dict[str, Any]:
    """Forecasts in both ways, and the peak of the step's own log."""
    model = ModelSpec(name="gpt2", target="models.gpt2", settings=GPT2)
    workload = WorkloadSpec(micro_batch=4, shape={"sequence_length": 256})
    step = target_step(model, precision, workload)
    units = [f"transformer.h.{index}" for index in range(3)]
    forecaster = step.forecaster(units)
    found = {}
    for placement in GPT2_PLACEMENTS:
        whole = forecaster.by_fake_step(placement)[0]
        log = step.record(placement, step.wiring(units))
        found[placement] = {
            "by a fake step": [whole.peak_allocated_bytes, whole.persistent_bytes, whole.peak_reserved_bytes],
            "fast": peaks(forecaster.fast(placement)),
            "of the log": as_allocated(log)[1].peaks.allocated_bytes,
            "attention": sorted({op.name for op in log.ops if "attention" in op.name}),
        }
    return {"placements": found, "notes": step.notes()}


def peaks(forecast: Any) -> list[int]:
    return [forecast.peak_allocated_bytes, forecast.persistent_bytes, forecast.peak_reserved_bytes]


def main() -> None:
    facts: dict[str, Any] = {precision: two_layers(precision) for precision in ("fp32", "bf16-autocast")}
    facts["gpt2"] = {precision: gpt2(precision) for precision in ("fp32", "bf16-autocast")}
    try:
        facts["fp16-autocast"] = two_layers("fp16-autocast")
    except Exception as error:
        facts["fp16-autocast"] = {"error": repr(error)[:300]}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
