"""Sums of gradients that autograd makes in place when nothing watches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from bench.measure import measure_memory
from bench.step import TrainingStep
from bench.step.state import persistent_tensors
from bench.trace.log import StepLog
from bench.trace.sums import sums_in_place
from tests.trace.toys import CPU, recorded, toy_step

ROWS, WIDTH, WIDE, VOCABULARY = 64, 32, 512, 4096
BLOCK = ROWS * WIDTH * 4


class Branches(nn.Module):
    """Its input is used `num` times, so that its gradient is a sum of as many."""

    def __init__(self, num: int) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(num))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return torch.stack([branch(x).square().sum() for branch in self.branches]).sum()


def _log(num: int) -> StepLog:
    return recorded(toy_step(Branches(num), [torch.randn(ROWS, WIDTH)], loss=lambda model, batch: model(batch)))


def _sums(log: StepLog, name: str) -> list[int]:
    ops = [op for op in log.ops if op.name == name and op.phase == "backward"]
    sizes = [log.storages[index].size_bytes for op in ops for index in op.writes]
    return [size for size in sizes if size > 4]  # the step's mean loss is a sum in place as well


def test_each_sum_of_two_gradients_is_made_in_the_first_of_them() -> None:
    log = _log(num=4)
    assert _sums(log, "add") == []
    assert _sums(log, "add_") == [BLOCK] * 3
    ops = [op for op in log.ops if op.name == "add_" and log.storages[op.writes[0]].size_bytes > 4]
    assert len({op.writes for op in ops if op.phase == "backward"}) == 1


def test_every_block_is_allocated_once_and_released_once() -> None:
    log = _log(num=4)
    for index, storage in enumerate(log.storages):
        assert [p for p, e in enumerate(log.events) if e == index + 1] == [b for b in [storage.birth] if b is not None]
        assert [p for p, e in enumerate(log.events) if e == -index - 1] == [d for d in [storage.death] if d is not None]
    assert log.timeline()[-1] == log.persistent_bytes


def test_a_log_without_sums_is_left_as_it_is() -> None:
    log = _log(num=1)
    assert sums_in_place(log, []) is log


class Slices(nn.Module):
    """Every use of the wide weight has a gradient as large as the weight, and their sum is the peak. It is in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDE, WIDE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.weight * 2
        return torch.stack([(x @ wide[:, part * 8 : part * 8 + 8]).sum() for part in range(4)]).sum()


class Tied(nn.Module):
    """The head's gradient comes first and is a view, so the embedding's is not added into it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.embedding(x))).sum()


class EmbeddedTwice(nn.Module):
    """Both gradients of the weight are whole tensors of their own, so the second is added into the first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.embedding(x).square() + self.embedding(x + 1).square()).sum()


@pytest.mark.parametrize(
    ("make", "batch", "in_place"),
    [
        (Slices, torch.ones(2, WIDE), 3),
        (Tied, torch.arange(8), 0),
        (EmbeddedTwice, torch.arange(8), 1),
    ],
)
def test_the_recorded_peak_of_a_sum_is_the_unwatched_one(
    make: Callable[[], nn.Module], batch: torch.Tensor, in_place: int
) -> None:
    step = toy_step(make(), [batch], loss=lambda model, batch: model(batch))
    step.run()
    measured = measure_memory(step.run, lambda: persistent_tensors(step), CPU)
    log = recorded(step)
    assert log.peak()[0] == measured.peak_bytes
    assert len(_sums(log, "add_")) == in_place


class Sorted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDE, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x).sort(-1)[0].sum()


def test_the_gradient_of_a_choice_is_filled_in_place() -> None:
    def step() -> TrainingStep:
        return toy_step(Sorted(), [torch.randn(ROWS, WIDTH)], loss=lambda model, batch: model(batch))

    unwatched = step()
    log = recorded(step())
    assert log.peak()[0] == measure_memory(unwatched.run, lambda: persistent_tensors(unwatched), CPU).peak_bytes
    assert [op.writes[0] in op.reads for op in log.ops if op.name == "scatter_"] == [True]
