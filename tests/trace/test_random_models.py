"""Models and placements that nobody chose: the fast way is the fake step's equal to the byte, or refuses."""

from __future__ import annotations

import random

import pytest
import torch

from bench.measure import measure_memory
from bench.placement import UnsupportedPlacementError
from bench.placement.applying import apply
from bench.spec import RecipeSpec
from bench.step import TrainingStep
from bench.step.state import persistent_tensors
from bench.trace.rearrange import CannotRearrangeError
from bench.trace.record import record_real_step
from bench.trace.workspaces import Rehearsals
from tests.trace.random_models import RandomModel, random_batches, random_placement
from tests.trace.rearrange_checks import FakeToy, assert_equal_to_fake_step, forecaster_of
from tests.trace.toys import CPU, toy_step, wiring_of

SCALARS = 64
"""Bytes of numbers that autograd wraps in tensors of 8 bytes, which fake tensors and a watched step do not all see."""


def _options(seed: int) -> tuple[str, RecipeSpec]:
    draw = random.Random(seed)
    recipe = RecipeSpec(zero_grad=draw.choice(["start", "end"]), set_to_none=draw.random() < 0.8)
    return draw.choice(["fp32", "fp32", "bf16-autocast"]), recipe


def _real_step(seed: int) -> TrainingStep:
    torch.manual_seed(seed)
    precision, recipe = _options(seed)
    step = toy_step(RandomModel(seed), random_batches(seed), precision=precision, recipe=recipe)
    step.run()
    return step


def _fake_step(seed: int) -> FakeToy:
    precision, recipe = _options(seed)
    return FakeToy(lambda: RandomModel(seed), lambda: random_batches(seed), precision=precision, recipe=recipe)


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 300))])
def test_the_fast_way_is_equal_to_a_fake_step_or_refuses(seed: int) -> None:
    fake = _fake_step(seed)
    forecaster = forecaster_of(fake)
    assert_equal_to_fake_step(forecaster, "none")
    draw = random.Random(seed)
    for _ in range(3):
        placement = random_placement(draw, fake.step.model)
        try:
            assert_equal_to_fake_step(forecaster, placement.text)
        except (CannotRearrangeError, UnsupportedPlacementError):
            continue


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 60))])
def test_recorded_and_forecast_peaks_are_the_unwatched_one(seed: int) -> None:
    placement = random_placement(random.Random(seed), RandomModel(seed))
    units = sorted({unit for region in placement.regions if len(region.units) > 1 for unit in region.units})
    fake = _fake_step(seed)
    try:
        forecast, _ = forecaster_of(fake, workspace=Rehearsals()).by_fake_step(placement)
    except (RuntimeError, UnsupportedPlacementError) as error:
        pytest.skip(f"it does not run: {error}")
    step = _real_step(seed)
    with apply(step.model, placement, wiring=wiring_of(step, *units)):
        measured = measure_memory(step.run, lambda: persistent_tensors(step), CPU)
    step = _real_step(seed)
    log = record_real_step(step, placement.text, wiring_of(step, *units), model="random")
    assert log.persistent_bytes == forecast.persistent_bytes == measured.persistent_bytes
    assert abs(log.peak()[0] - measured.peak_bytes) <= SCALARS
    assert abs(forecast.peak_allocated_bytes - measured.peak_bytes) <= SCALARS
