"""Steps of the zoo at test size on fake tensors, and what a peer's own wrapper does to one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bench.peers.peer import StepFacts
from bench.placement import Placement
from bench.plan.costs import OpCosts, flop_ops
from bench.plan.profile import StepProfile, profile_step
from bench.spec import Controls
from bench.step import load_family
from bench.step.state import roles
from bench.trace.fake import FakeStep
from bench.trace.fake_ledger import FakeLedger
from bench.trace.forecast import Forecaster, forecast_from_log
from bench.trace.log import StepLog
from bench.trace.recorder import Recorder
from tests.trace.rearrange_checks import CPU, zoo_forecaster
from tests.trace.test_rearrange_models import controls


@dataclass(frozen=True, kw_only=True)
class ZooStep:
    controls: Controls
    forecaster: Forecaster
    facts: StepFacts
    profile: StepProfile


@functools.lru_cache(maxsize=2)
def zoo_step(model: str) -> ZooStep:
    """Ops cost a nanosecond for each byte that they move."""
    of = controls(model)
    forecaster, fake = zoo_forecaster(of)
    log = forecaster.plain_log
    costs = OpCosts(
        op_ms=tuple(op.moved_bytes / 1e6 for op in log.ops),
        has_flops=flop_ops(log),
        region_ms=0.0,
        policy_op_ms=0.0,
        source="made up",
    )
    facts = StepFacts(
        model=fake.step.model,
        chains=tuple(load_family(of.model).chains(fake.step.model)),
        log=log,
        op_ms=costs.op_ms,
        new_step=lambda: FakeStep(of, CPU),
    )
    profile = profile_step(forecaster, facts.chains, costs)
    return ZooStep(controls=of, forecaster=forecaster, facts=facts, profile=profile)


def wrapped_log(model: str, wrap: Callable[[nn.Module], object]) -> StepLog:
    """The step of a model that another system has wrapped."""
    fake = FakeStep(controls(model), torch.device("cpu"))
    with fake.entered():
        wrap(fake.step.model)
        recorder = Recorder(fake.step, FakeLedger("cpu", roles(fake.step), None))
        with recorder.modules_named(), recorder.recording():
            fake.step.run(recorder.on_phase)
    return recorder.log(model=model, placement="none", device="cpu", is_fake=True)


def footprint(log: StepLog) -> tuple[int, int, list[str]]:
    """Bytes at the peak and after the forward, and all ops in order: what two ways to checkpoint must agree in."""
    forecast = forecast_from_log(log)
    return forecast.peak_allocated_bytes, forecast.retained_bytes, [op.name for op in log.ops]


def placed_footprint(model: str, placement: Placement) -> tuple[int, int, list[str]]:
    return footprint(zoo_step(model).forecaster.by_fake_step(placement)[1])
