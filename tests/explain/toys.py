"""Small models whose every tensor is known, and their steps as a study records and measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from bench.measure import measure_memory
from bench.placement import parse_placement
from bench.placement.applying import apply
from bench.spec import ChainInfo
from bench.step import TrainingStep
from bench.step.state import persistent_tensors
from bench.trace.log import StepLog
from tests.trace.toys import CPU, recorded, toy_step, wiring_of

Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]
MakeOptimizer = Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]


def squares(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = model(batch).square().mean()
    return result


def make_step(
    model: nn.Module, *batches: torch.Tensor, loss: Loss = squares, make_optimizer: MakeOptimizer | None = None
) -> TrainingStep:
    """A step that has run once, so that the optimizer's state is there; plain SGD by default, which has none."""
    optimizer = None if make_optimizer is None else make_optimizer(list(model.parameters()))
    step = toy_step(model, batches, loss=loss, optimizer=optimizer)
    step.run()
    return step


def record(step: TrainingStep, placement: str = "none") -> StepLog:
    return recorded(step, placement, *_units(placement))


def measured_peak(step: TrainingStep, placement: str = "none") -> int:
    """Of a step that nothing but the allocator's own events watches."""

    with apply(step.model, placement, wiring=wiring_of(step, *_units(placement))):
        return measure_memory(step.run, lambda: persistent_tensors(step), CPU).peak_bytes


def chain_of(model: nn.Module) -> tuple[ChainInfo, ...]:
    """The model's `blocks`."""
    names = [f"blocks.{name}" for name, _ in model.get_submodule("blocks").named_children()]
    return (ChainInfo(name="blocks", units=tuple(names)),)


def _units(placement: str) -> list[str]:
    return sorted({unit for region in parse_placement(placement).regions for unit in region.units})


class Block(nn.Module):
    """Linear, ReLU, Linear back; without biases. It saves its input and the ReLU's output."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(torch.relu(self.up(x)))
        return result


class QuarterBlock(Block):
    """A block that hands out the means of each four rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = super().forward(x)
        return made.view(made.shape[0] // 4, 4, -1).mean(1)


class LeakyBlock(Block):
    """A block that appends twice its input to a list, at every call."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(width, inner)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.detach() * 2)
        return super().forward(x)


class Crowd(nn.Module):
    """Many tensors at once that are all gone when it is done, since addition saves nothing."""

    def __init__(self, width: int, times: int, number: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width, bias=False)
        self.times, self.number = times, number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.repeat(1, self.times)
        parts = [wide + k for k in range(self.number)]
        result: torch.Tensor = self.mix(parts[-1].view(x.shape[0], self.times, -1).sum(1))
        return result


class Keeper(nn.Module):
    """Saves one tensor `times` as wide as its input, the ReLU's output."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, times * width, bias=False)
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x)).view(x.shape[0], self.times, -1).sum(1)


class Wide(nn.Module):
    """Few parameters; saves one tensor `times` as wide as its input, the exponential's output."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.01))
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp((x * self.scale).repeat(1, self.times)).view(x.shape[0], self.times, -1).mean(1)


class Blocks(nn.Module):
    def __init__(self, *blocks: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Identity() if head is None else head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(x)
        return result
