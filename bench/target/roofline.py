"""A step's time by the roofline model (Williams, Waterman, Patterson 2009): for each op the longer of computing at the
device's peak rate and moving its bytes at the peak bandwidth, and never less than a launch takes.

It is a bound and no forecast: kernels reach half of a peak, or less, and only placements of one model on one device
may be compared by it. Whoever shows it says so (`ROOFLINE`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from bench.target.spec import Target
from bench.trace.log import REPLAY, Op, StepLog

ROOFLINE = "roofline"
LAUNCH_S = 4e-6
"""Of one kernel, as the host issues them one after another: a few microseconds from Python."""
COMPUTE, MEMORY, LAUNCH = "compute", "memory", "launch"
_RATE_OF = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, kw_only=True)
class RooflineTime:
    total_s: float
    replay_s: float
    """Of the ops that ran again."""
    bound_by: Mapping[str, float]
    """COMPUTE, MEMORY, LAUNCH → seconds of the ops that this bounds."""
    uncounted_ops: int
    """Ops whose FLOPs are not known; they are counted by their bytes alone."""


def roofline_time(
    log: StepLog, target: Target, *, allow_tf32: bool = False, launch_s: float = LAUNCH_S
) -> RooflineTime:
    """Time of a recorded step on `target`.

    Args:
        allow_tf32: fp32 matmuls run on Tensor Cores (`torch.set_float32_matmul_precision("high")`); by default they
            do not.
        launch_s: seconds that no op can be shorter than.
    """
    bound_by: dict[str, float] = defaultdict(float, {COMPUTE: 0.0, MEMORY: 0.0, LAUNCH: 0.0})
    replay = 0.0
    for op in log.ops:
        flops = op.flops or 0
        parts = {
            COMPUTE: flops / _rate(log, op, target, allow_tf32),
            MEMORY: op.moved_bytes / target.bandwidth_bytes_per_s,
            LAUNCH: launch_s,
        }
        name = max(parts, key=lambda part: parts[part])
        bound_by[name] += parts[name]
        if op.region_pass >= 0 and log.passes[op.region_pass].kind == REPLAY:
            replay += parts[name]
    return RooflineTime(
        total_s=sum(bound_by.values()),
        replay_s=replay,
        bound_by=dict(bound_by),
        uncounted_ops=sum(op.flops is None for op in log.ops),
    )


def _rate(log: StepLog, op: Op, target: Target, allow_tf32: bool) -> float:
    """FLOP/s of the units that the op runs on: those of the narrowest float among its tensors."""
    dtypes = {log.storages[index].dtype for index in (*op.reads, *op.writes)}
    rates = target.peak_flops_per_s
    for dtype, name in _RATE_OF.items():
        if dtype in dtypes and name in rates:
            return rates[name]
    return rates.get("tf32", rates["fp32"]) if allow_tf32 else rates["fp32"]
