"""What the fast way is held against: a whole fake step under the same placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.records.forecast import FAKE_STEP
from bench.spec import Controls, RecipeSpec
from bench.step import load_family
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.routing import Routing
from tests.trace.toys import toy_step

CPU = torch.device("cpu")


class FakeToy(FakeStep):
    """The step of a toy module, on fake tensors."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        batches: Callable[[], Sequence[Any]],
        *,
        precision: str = "fp32",
        recipe: RecipeSpec | None = None,
    ) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.routing = Routing()
        with self.entered():
            self.step = toy_step(build(), batches(), precision=precision, recipe=recipe)
            self.step.run()


def forecaster_of(fake: FakeStep, **options: Any) -> Forecaster:
    return Forecaster(fake, [], model="test", **options)


def zoo_forecaster(controls: Controls) -> tuple[Forecaster, FakeStep]:
    fake = FakeStep(controls, CPU)
    chains = load_family(controls.model).chains(fake.step.model)
    return Forecaster(fake, [unit for chain in chains for unit in chain.units], model="test"), fake


def assert_equal_to_fake_step(forecaster: Forecaster, placement: str) -> None:
    """Peak, retained bytes, phase, FLOPs, ops and bytes moved: all that a forecast says."""
    fast = forecaster.fast(placement)
    step, _ = forecaster.by_fake_step(placement)
    assert dataclasses.replace(fast, method=FAKE_STEP) == step
