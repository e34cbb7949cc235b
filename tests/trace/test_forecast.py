"""What a forecast says, against the log that it is read from and the unwatched allocator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
import torch
from torch import nn

from bench.measure import measure_memory
from bench.placement.applying import apply
from bench.records.forecast import FAKE_STEP, REARRANGED
from bench.step.state import persistent_tensors
from bench.trace.forecast import Forecaster, forecast_from_log
from bench.trace.peaks import ExactAllocator, Peaks
from bench.trace.workspaces import Rehearsals
from tests.trace.rearrange_checks import FakeToy, assert_equal_to_fake_step, forecaster_of
from tests.trace.toys import CPU, recorded, toy_step

ROWS, WIDTH = 16, 64
DIVISOR = 8
"""The number of micro-batches, which autograd keeps as a scalar to divide the gradient by; in a fake step it is none of
the device's blocks."""
PLACEMENTS = ("none", "0..2:each", "1", "0..2:each:keep.matmul")


def build() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3)))


def batches() -> Sequence[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH)]


@pytest.fixture(scope="module")
def forecaster() -> Forecaster:
    return forecaster_of(FakeToy(build, batches))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_both_ways_meet_the_unwatched_allocator_to_the_byte(forecaster: Forecaster, placement: str) -> None:
    step = toy_step(build(), batches())
    with apply(step.model, placement):
        measured = measure_memory(step.run, lambda: persistent_tensors(step), CPU)
    for forecast in (forecaster.fast(placement), forecaster.by_fake_step(placement)[0]):
        assert forecast.peak_allocated_bytes == measured.peak_bytes
        assert forecast.persistent_bytes == measured.persistent_bytes
        assert forecast.retained_bytes == measured.retained_bytes - DIVISOR
        assert forecast.peak_phase == measured.peak_phase


def test_a_real_steps_log_gives_the_same_forecast_as_a_fake_ones(forecaster: Forecaster) -> None:
    real = forecast_from_log(recorded(toy_step(build(), batches()), "1"))
    assert dataclasses.replace(real, retained_bytes=real.retained_bytes - DIVISOR) == forecaster.by_fake_step("1")[0]


def test_replay_is_counted_in_flops_ops_and_bytes(forecaster: Forecaster) -> None:
    matmul = 2 * ROWS * WIDTH * WIDTH
    plain, each = forecaster.fast("none"), forecaster.fast("0..2:each")
    assert (plain.replay_flops, plain.replay_ops, plain.replay_moved_bytes) == (0, 0, 0)
    assert (each.replay_flops, each.replay_ops) == (3 * matmul, 3 * 2)
    assert plain.step_flops is not None
    assert each.step_flops == plain.step_flops + 3 * matmul
    activation = 4 * ROWS * WIDTH
    addmm = 4 * (WIDTH * WIDTH + WIDTH) + 2 * activation
    assert each.replay_moved_bytes == 3 * (addmm + 2 * activation)
    kept = forecaster.fast("0..2:each:keep.matmul")
    assert (kept.replay_flops, kept.replay_ops) == (0, 3)


def test_a_forecast_says_how_it_was_made(forecaster: Forecaster) -> None:
    assert forecaster.fast("1").method == REARRANGED
    assert forecaster.by_fake_step("1")[0].method == FAKE_STEP


def test_what_cannot_be_rearranged_is_forecast_by_a_fake_step(forecaster: Forecaster) -> None:
    reentrant = forecaster.forecast("1..2:each@reentrant")
    assert reentrant.method == FAKE_STEP
    assert reentrant.replay_ops == 2 * 2
    assert forecaster.forecast("1..2:each").method == REARRANGED


def test_the_plain_step_is_recorded_alike_whatever_was_recorded_before(forecaster: Forecaster) -> None:
    plain = forecaster_of(FakeToy(build, batches)).by_fake_step("none")[1]
    forecaster.fast("1..2:each")
    step = forecaster.by_fake_step("none")[1]
    assert dataclasses.replace(plain, sources=()) == dataclasses.replace(step, sources=())  # these lines are among them
    assert any(op.forward_op >= 0 for op in plain.ops)


class _Doubling(ExactAllocator):
    """Blocks twice as large as asked for, and as much again in reserve."""

    def peaks(self, persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> Peaks:
        exact = super().peaks([2 * size for size in persistent], [2 * size for size in sizes], events)
        return Peaks(
            allocated_bytes=exact.allocated_bytes,
            at_event=exact.at_event,
            persistent_bytes=exact.persistent_bytes,
            reserved_bytes=2 * exact.allocated_bytes,
        )


def test_another_allocator_serves_both_ways(forecaster: Forecaster) -> None:
    doubling = forecaster_of(FakeToy(build, batches), allocator=_Doubling())
    assert_equal_to_fake_step(doubling, "0..2:each")
    exact, other = forecaster.fast("0..2:each"), doubling.fast("0..2:each")
    assert other.peak_allocated_bytes == 2 * exact.peak_allocated_bytes
    assert (exact.peak_reserved_bytes, other.peak_reserved_bytes) == (None, 4 * exact.peak_allocated_bytes)


def pooled() -> nn.Module:
    blocks = [nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)) for _ in range(2)]
    return nn.Sequential(*blocks)


@pytest.mark.parametrize("placement", ["0..1:each", "0", "0..1:each:keep.conv"])
def test_kernels_blocks_come_and_go_again_in_replay(placement: str) -> None:
    images = FakeToy(pooled, lambda: [torch.randn(8, 3, 32, 32)])
    with_workspaces = forecaster_of(images, workspace=Rehearsals())
    assert_equal_to_fake_step(with_workspaces, placement)
    assert with_workspaces.fast(placement).replay_ops
