"""Planners of toys and of the zoo's tiny models, by counted costs, so that nothing is measured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.placement.types import Placement, Region
from bench.plan.costs import OpCosts, counted_costs
from bench.plan.options import Option, options_of
from bench.plan.planner import Planner
from bench.plan.repeats import Run, runs_of
from bench.plan.sites import Sites, sites_of
from bench.plan.trials import Trials, Tried
from bench.spec import ChainInfo, Controls, RecipeSpec
from bench.step import load_family
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.workspaces import Rehearsals
from tests.trace.rearrange_checks import CPU, FakeToy
from tests.trace.test_rearrange_models import controls

CHAIN = ChainInfo(name="blocks", units=("blocks.0", "blocks.1", "blocks.2"))


class Blocks(nn.Module):
    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Mlp(nn.Module):
    """Wide inside, and with a last op after its last matmul."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(width, inner), nn.Tanh()
        self.down, self.last = nn.Linear(inner, width), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.down(self.act(self.up(x))))


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model's step as planners see it."""

    forecaster: Forecaster
    chains: Sequence[ChainInfo]

    @functools.cached_property
    def costs(self) -> OpCosts:
        return counted_costs(self.forecaster.plain_log)

    @functools.cached_property
    def trials(self) -> Trials:
        return Trials(self.forecaster, self.costs)

    @functools.cached_property
    def sites(self) -> Sites:
        return sites_of(self.trials.script, self.forecaster.wiring(), self.chains)

    @functools.cached_property
    def runs(self) -> list[Run]:
        return runs_of(self.trials.script, self.chains)

    @functools.cached_property
    def options(self) -> list[Option]:
        return options_of(self.trials, self.sites, self.runs)

    @functools.cached_property
    def planner(self) -> Planner:
        return Planner(self.forecaster, self.chains, self.costs)

    def tried(self, *regions: Region) -> Tried:
        tried = self.trials.tried(Placement(regions))
        assert tried is not None
        return tried

    def replayed(self, placement: Placement | str) -> list[tuple[str, str]]:
        """(op, module) of each op that runs again."""
        log = self.forecaster.plain_log
        return [(log.ops[i].name, log.ops[i].module) for i in self.forecaster.rearranged(placement).replayed]

    def budgets(self, count: int) -> list[int]:
        """Between the planner's floor and `none`, evenly."""
        low = self.planner.floor().forecast.peak_allocated_bytes
        high = self.planner.plain.forecast.peak_allocated_bytes
        return [low + (high - low) * number // (count + 1) for number in range(1, count + 1)]


def toy(
    build: Callable[[], nn.Module],
    *shape: int,
    chains: Sequence[ChainInfo] = (CHAIN,),
    num_batches: int = 1,
    precision: str = "fp32",
) -> Subject:
    fake = FakeToy(
        build,
        lambda: [torch.randn(*shape) for _ in range(num_batches)],
        recipe=RecipeSpec(zero_grad="start"),
        precision=precision,
    )
    return Subject(forecaster=_naming_all(fake), chains=chains)


@functools.lru_cache(maxsize=2)
def zoo(model: str, *overrides: str) -> Subject:
    """A model of `conf/model`; the tests of one follow each other."""
    of: Controls = controls(model, *overrides)
    fake = FakeStep(of, CPU)
    forecaster = _naming_all(fake, workspace=Rehearsals())
    return Subject(forecaster=forecaster, chains=load_family(of.model).chains(fake.step.model))


def _naming_all(fake: FakeStep, **options: Any) -> Forecaster:
    names: list[Any] = [name for name, _ in fake.step.model.named_modules() if name]
    return Forecaster(fake, names, model="test", **options)
