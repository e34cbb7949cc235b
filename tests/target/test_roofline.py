"""Times by roofline of logs whose ops are given."""

from __future__ import annotations

import pytest

from bench.target.roofline import COMPUTE, LAUNCH, MEMORY, roofline_time
from bench.target.spec import Target
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, RegionPass, StepLog, Storage

ROUND = Target(
    name="round",
    device_name="Round Numbers",
    memory_bytes=2**30,
    compute_capability=(8, 0),
    num_multiprocessors=1,
    bandwidth_bytes_per_s=1e9,
    peak_flops_per_s={"fp32": 1e9, "tf32": 2e9, "bf16": 8e9},
    context_bytes=0,
)
FP32, BF16 = 0, 1
"""Storages of `log`."""


def op(flops: int | None, moved_bytes: int, storage: int = FP32, region_pass: int = NOWHERE) -> Op:
    return Op(
        name="mm",
        module="",
        phase="forward",
        micro_batch=0,
        region_pass=region_pass,
        source=NOWHERE,
        forward_op=NOWHERE,
        flops=flops,
        moved_bytes=moved_bytes,
        reads=(storage,),
        writes=(storage,),
        begin=0,
        end=0,
    )


def log(*ops: Op) -> StepLog:
    storages = tuple(
        Storage(size_bytes=4, role=None, name="", shape=(1,), dtype=dtype, op=0, birth=None, death=None)
        for dtype in ("float32", "bfloat16")
    )
    passes = tuple(
        RegionPass(region="a", call=0, kind=kind, around=NOWHERE, begin=0, end=0, boundary=(), handed_out=())
        for kind in (FIRST, REPLAY)
    )
    return StepLog(
        model="toy",
        placement="a",
        device="round",
        is_fake=True,
        ops=ops,
        storages=storages,
        passes=passes,
        phases=(),
        sources=(),
        events=(),
    )


def test_an_op_takes_the_longest_of_computing_moving_and_launching() -> None:
    found = roofline_time(log(op(3 * 10**9, 10**9), op(10**9, 2 * 10**9), op(0, 0)), ROUND, launch_s=0.5)
    assert found.bound_by == {COMPUTE: 3.0, MEMORY: 2.0, LAUNCH: 0.5}
    assert found.total_s == 5.5


def test_half_precision_runs_on_tensor_cores_and_fp32_only_where_it_is_allowed() -> None:
    def seconds(storage: int, *, allow_tf32: bool = False) -> float:
        return roofline_time(log(op(8 * 10**9, 0, storage)), ROUND, allow_tf32=allow_tf32).total_s

    assert (seconds(BF16), seconds(FP32), seconds(FP32, allow_tf32=True)) == (1.0, 8.0, 4.0)


def test_a_rate_that_the_device_lacks_is_that_of_fp32() -> None:
    old = Target(**{**{f: getattr(ROUND, f) for f in ROUND.__dataclass_fields__}, "peak_flops_per_s": {"fp32": 1e9}})
    assert roofline_time(log(op(10**9, 0, BF16)), old).total_s == 1.0


def test_what_ran_again_is_counted_apart() -> None:
    found = roofline_time(log(op(10**9, 0, region_pass=0), op(2 * 10**9, 0, region_pass=1)), ROUND)
    assert (found.total_s, found.replay_s) == pytest.approx((3.0, 2.0))


def test_ops_without_a_formula_are_counted_by_their_bytes_and_told() -> None:
    found = roofline_time(log(op(None, 10**9)), ROUND)
    assert (found.total_s, found.uncounted_ops) == (1.0, 1)
