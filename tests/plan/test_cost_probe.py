"""Times of ops: which belong to which, pooled, and made to add up. No test here judges what this machine measures."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bench.plan.cost_probe import OpsDifferError, op_costs, probe_costs, probe_region
from bench.plan.op_times import OpTimes, UnsteadyStepError, _of_ops, time_ops
from bench.trace.log import StepLog
from tests.trace.rearrange_checks import FakeToy, forecaster_of
from tests.trace.toys import toy_step

ROWS, WIDTH = 16, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))).view(-1, 2, WIDTH // 2).transpose(1, 2).reshape(-1, WIDTH)


def build() -> nn.Module:
    return nn.Sequential(*(Block() for _ in range(3)))


def batches() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH)]


@pytest.fixture(scope="module")
def log() -> StepLog:
    return forecaster_of(FakeToy(build, batches)).plain_log


def names(log: StepLog) -> tuple[str, ...]:
    return tuple(op.name for op in log.ops)


def test_a_real_step_has_the_ops_of_the_fake_one_views_left_out(log: StepLog) -> None:
    times = time_ops(toy_step(build(), batches()), 2)
    assert times.names == names(log)
    assert "transpose" not in times.names
    assert [len(of_step) for of_step in times.ms] == [len(log.ops)] * 2
    assert all(ms >= 0 for ms in itertools.chain(*times.ms))
    assert len(times.plain_ms) == 2


def test_calls_that_are_no_ops_are_counted_for_policies() -> None:
    seen = _Dispatched()
    step = toy_step(build(), batches())
    with seen:
        step.forward()
    times = time_ops(step, 1)
    num_ops = sum(op.phase == "forward" for op in forecaster_of(FakeToy(build, batches)).plain_log.ops)
    # The step divides the loss by the number of micro-batches: a call more, which is an op.
    assert times.calls_per_op == pytest.approx((seen.num_calls + 1) / num_ops)


class _Dispatched(TorchDispatchMode):
    num_calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num_calls += 1
        return func(*args, **(kwargs or {}))


def test_each_probing_takes_an_unwatched_step_for_every_watched_one() -> None:
    step = toy_step(build(), batches())
    time_ops(step, 3)
    assert step.optimizer_steps == 1 + 2 * 3


class Fickle(nn.Module):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x).sin() if self.calls % 3 else self.linear(x).cos()


def test_a_step_that_runs_other_ops_each_time_is_refused() -> None:
    with pytest.raises(UnsteadyStepError, match="did not dispatch the same"):
        time_ops(toy_step(Fickle(), batches()), 2)


def test_the_views_before_an_op_are_part_of_it_where_spans_touch() -> None:
    # Calls 0 to 4; the ops are 1 and 3, and what comes after the last belongs to nobody.
    spans = [1.0, 10.0, 2.0, 20.0, 4.0]
    assert _of_ops(spans, [1, 3], 0.0, spans_touch=True) == (11.0, 22.0)
    assert _of_ops(spans, [1, 3], 0.0, spans_touch=False) == (10.0, 20.0)


def test_the_watching_is_taken_off_each_call_and_never_more_than_it_took() -> None:
    assert _of_ops([1.0, 10.0, 2.0, 20.0], [1, 3], 1.5, spans_touch=True) == (8.5, 0.5 + 18.5)


def op_times(log: StepLog, *steps: dict[str, float], default: float = 1.0, plain_ms: float | None = None) -> OpTimes:
    """Each step's time for ops by name."""
    ms = tuple(tuple(of_step.get(name, default) for name in names(log)) for of_step in steps)
    return OpTimes(
        names=names(log), ms=ms, plain_ms=(plain_ms if plain_ms is not None else sum(ms[0]),), calls_per_op=1.0
    )


def test_equal_ops_share_one_time_and_a_delay_of_one_of_them_is_nobodys(log: StepLog) -> None:
    times = op_times(log, {"addmm": 8.0}, {"addmm": 8.0})
    delayed = list(times.ms[0])
    delayed[names(log).index("addmm")] = 800.0
    found = op_costs(log, dataclasses.replace(times, ms=(tuple(delayed), times.ms[1])))
    assert [ms for ms, name in zip(found, names(log), strict=True) if name == "addmm"] == pytest.approx([8.0] * 3)


def test_ops_add_up_to_the_step_that_nobody_watched(log: StepLog) -> None:
    total = sum(op_times(log, {}).ms[0])
    slowed = op_costs(log, op_times(log, {"addmm": 3.0}, plain_ms=total / 2))
    assert sum(slowed) == pytest.approx(total / 2)
    by_name = dict(zip(names(log), slowed, strict=True))
    assert by_name["addmm"] == pytest.approx(3 * by_name["relu"])  # all are scaled alike
    hosts = op_costs(log, op_times(log, {"addmm": 3.0}, plain_ms=10 * total))
    assert sum(hosts) == pytest.approx(10 * total)
    by_name = dict(zip(names(log), hosts, strict=True))
    assert by_name["addmm"] == pytest.approx(2 + by_name["relu"])  # the host's share is each op's alike


def without(times: OpTimes, name: str) -> OpTimes:
    kept = [index for index, one in enumerate(times.names) if one != name]
    return dataclasses.replace(
        times,
        names=tuple(times.names[index] for index in kept),
        ms=tuple(tuple(of_step[index] for index in kept) for of_step in times.ms),
    )


def test_an_op_of_the_fake_step_alone_that_moves_nothing_takes_no_time(log: StepLog) -> None:
    assert "empty" in names(log)  # BatchNorm's reserve, without bytes
    found = dict(zip(names(log), op_costs(log, without(op_times(log, {}), "empty")), strict=True))
    assert found["empty"] == 0.0
    assert found["addmm"] > 0.0


def test_a_step_without_its_matmuls_is_no_match(log: StepLog) -> None:
    with pytest.raises(OpsDifferError, match=r"3 of \d+ are missing .* addmm first; plan from FLOPs"):
        op_costs(log, without(op_times(log, {}), "addmm"))


def test_probing_gives_each_op_its_time_and_the_toys_differences(log: StepLog) -> None:
    costs = probe_costs(toy_step(build(), batches()), log, num_steps=2)
    assert len(costs.op_ms) == len(log.ops)
    assert all(map(math.isfinite, (*costs.op_ms, costs.region_ms, costs.policy_op_ms)))
    assert min(*costs.op_ms, costs.region_ms, costs.policy_op_ms) >= 0.0
    assert costs.source == "measured"


def test_probing_regions_needs_no_model() -> None:
    region_ms, policy_op_ms = probe_region(torch.device("cpu"), num_rounds=2)
    assert policy_op_ms >= 0.0
    assert region_ms >= 0.0
