"""Where regions may stand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.span import plan_span
from bench.placement.types import Region
from bench.spec import ChainInfo
from tests.plan.planning import CHAIN, Blocks, Mlp, Subject, toy, zoo


@pytest.fixture(scope="module")
def three() -> Subject:
    return toy(lambda: Blocks([Mlp(8, 16) for _ in range(3)]), 4, 8)


def test_units_of_a_chain_stand_alone_and_joined(three: Subject) -> None:
    one, two, last = CHAIN.units
    assert set(three.sites.chained) == {(one,), (two,), (last,), (one, two), (two, last), (one, two, last)}


def test_parts_of_a_unit_stand_alone_and_joined_with_the_next(three: Subject) -> None:
    assert ("blocks.1.act",) in three.sites.inside
    assert ("blocks.1.up", "blocks.1.act", "blocks.1.down") in three.sites.inside


def test_no_site_is_named_twice(three: Subject) -> None:
    every = [*three.sites.chained, *three.sites.inside]
    assert len(set(every)) == len(every)


class Residual(nn.Module):
    """What `b` is given is made between the two, by no module."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.never = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(x + self.a(x))


def test_modules_with_an_op_of_the_models_own_between_them_are_not_joined() -> None:
    sites = toy(lambda: Blocks([Residual()]), 4, 8, chains=[ChainInfo(name="blocks", units=("blocks.0",))]).sites
    assert ("blocks.0.a",) in sites.inside
    assert ("blocks.0.a", "blocks.0.b") not in sites.inside


def test_a_module_that_is_never_called_is_no_site() -> None:
    chain = ChainInfo(name="blocks", units=("blocks.0", "blocks.0.never"))
    sites = toy(lambda: Blocks([Residual()]), 4, 8, chains=[chain]).sites
    assert not [units for units in (*sites.chained, *sites.inside) if "blocks.0.never" in units]


def test_a_chain_without_units_has_no_sites() -> None:
    assert toy(lambda: Blocks([Mlp(8, 16)]), 4, 8, chains=[ChainInfo(name="blocks", units=())]).sites.chained == ()


def test_a_unit_that_is_called_twice_stands_alone_only() -> None:
    def build() -> nn.Module:
        shared = Mlp(8, 16)
        return Blocks([Mlp(8, 16), shared, shared])

    chain = ChainInfo(name="blocks", units=("blocks.0", "blocks.1"))
    assert toy(build, 4, 8, chains=[chain]).sites.chained == (("blocks.0",), ("blocks.1",))


def test_frozen_modules_that_run_without_gradients_are_no_sites() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = self.inner(x)
            return self.outer(x)

    chain = ChainInfo(name="blocks", units=("blocks.0",))
    sites = toy(lambda: Blocks([Frozen()]), 4, 8, chains=[chain]).sites
    assert ("blocks.0.outer",) in sites.inside
    assert ("blocks.0.inner",) not in sites.inside


@pytest.mark.parametrize("model", ["t5-tiny", "unet-tiny", "resnet50-tiny"])
def test_every_run_that_can_be_replayed_as_one_is_found_and_no_other(model: str) -> None:
    """Longer spans are given up where a shorter one from the same unit on is refused; here each is asked for."""
    subject = zoo(model)
    wiring = subject.forecaster.wiring()
    for chain in subject.chains:
        units = [unit for unit in chain.units if unit in subject.trials.script.calls]
        for first in range(len(units)):
            for length in range(2, len(units) - first + 1):
                span = tuple(units[first : first + length])
                try:
                    plan_span(Region(units=span), wiring)
                    possible = True
                except UnsupportedPlacementError:
                    possible = False
                assert (span in subject.sites.chained) == possible, span
