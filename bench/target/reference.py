"""`python -m bench.target.reference`: GPT-2 at 8 × 1024 forecast for an H200, as committed in results/reference.

It is there to be held against a real one, and to show what a change of this room changes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import yaml

from bench.folders import root
from bench.placement import parse_placement
from bench.spec import (
    Controls,
    DeviceSpec,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    ProtocolSpec,
    RecipeSpec,
    WorkloadSpec,
)
from bench.target.roofline import roofline_time
from bench.target.spec import Target, target_of
from bench.target.step import TargetStep, as_allocated

TARGET = "h200"
FILE = Path("results/reference/forecast/gpt2-8x1024-h200.json")
PRECISIONS = ("fp32", "bf16-autocast", "bf16-pure")
PLACEMENTS = (
    "none",
    "transformer.h.0..11:each",
    "transformer.h.0..10:each",
    "transformer.h.0..10:every.2",
    "transformer.h.0..11.mlp:each",
    "transformer.h.0..11.attn:each",
    "transformer.h.0..5+transformer.h.6..11",
    "transformer.h.0..11:each:keep.attention",
)


def controls(precision: str) -> Controls:
    """As `python -m bench forecast model=gpt2 target=h200` composes them."""
    return Controls(
        model=ModelSpec(name="gpt2", target="models.gpt2"),
        workload=WorkloadSpec(micro_batch=8, shape={"sequence_length": 1024}),
        optimizer=OptimizerSpec(settings={"lr": 0.0003, "weight_decay": 0.01}),
        recipe=RecipeSpec(),
        precision=precision,
        parallelism=ParallelismSpec(),
        device=DeviceSpec(kind="cuda"),
        protocol=ProtocolSpec(),
    )


def forecast(step: TargetStep) -> list[dict[str, Any]]:
    """One row a placement."""
    units = sorted({unit for text in PLACEMENTS for region in parse_placement(text).regions for unit in region.units})
    wiring = step.wiring(units)
    rows = []
    for placement in PLACEMENTS:
        log = step.record(placement, wiring)
        allocated, found = as_allocated(log)
        time = roofline_time(log, step.target)
        at = found.peaks.at_event
        rows.append(
            {
                "placement": placement,
                "peak_allocated_bytes": found.peaks.allocated_bytes,
                "peak_requested_bytes": found.requested_bytes,
                "peak_reserved_bytes": found.reserved_bytes,
                "persistent_bytes": found.peaks.persistent_bytes,
                "peak_phase": allocated.phase_at(at).phase,
                "peak_op": allocated.ops[allocated.op_at(at)].name,
                "attention_ops": sorted(
                    {op.name for op in log.ops if "attention" in op.name and "back" not in op.name}
                ),
                "roofline_step_time_ms": round(1000 * time.total_s, 3),
                "roofline_replay_time_ms": round(1000 * time.replay_s, 3),
            }
        )
    return rows


def load_target(name: str) -> Target:
    options = yaml.safe_load((root() / "conf" / "target" / f"{name}.yaml").read_text(encoding="utf-8"))
    target = target_of(options)
    assert target is not None, "a target, not `none`"
    return target


def main() -> None:
    target = load_target(TARGET)
    steps = {precision: TargetStep(controls(precision), target) for precision in PRECISIONS}
    table = {
        "model": "gpt2",
        "workload": "8 x 1024 tokens",
        "target": TARGET,
        "torch": torch.__version__.partition("+")[0],
        "compared_with_a_real_device": False,
        "forecasts": {precision: forecast(step) for precision, step in steps.items()},
        "not_in_it": list(steps["bf16-autocast"].notes()),
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE} written", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # the interpreter's clean-up was seen to abort with a device of its own
