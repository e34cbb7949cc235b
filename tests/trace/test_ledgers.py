"""Which block a tensor lies in: where memory is used again, grows, or is asked about."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.trace.blocks import Blocks
from bench.trace.fake_ledger import FakeLedger
from bench.trace.rearrange import CannotRearrangeError
from bench.trace.routing import Routing
from tests.trace.rearrange_checks import FakeToy, assert_equal_to_fake_step, forecaster_of

WIDTH = 16


def test_an_address_belongs_to_a_block_only_while_that_is_allocated() -> None:
    blocks = Blocks()
    blocks.allocated(0x10, 64)
    blocks.released(0x10)
    blocks.allocated(0x10, 32)
    assert [blocks.owner(0x10, events) for events in range(4)] == [None, 0, None, 1]


def test_a_fake_block_that_is_resized_is_a_new_one_made_before_the_old_one_goes() -> None:
    ledger = FakeLedger("cpu", [])
    with FakeTensorMode():
        tensor = torch.empty(2)
        first = ledger.key(tensor)
        tensor.resize_(8)
        second = ledger.key(tensor)
        assert ledger.key(tensor.view(2, 4)) == second != first
        del tensor
    storages, events = ledger.blocks()
    assert [storage.size_bytes for storage in storages] == [8, 32]
    assert events == [1, 2, -1, -2]


def test_asking_which_module_decides_lets_its_tensors_die() -> None:
    died: list[bool] = []

    class Deciding(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            alive = weakref.ref(y)
            routing.decision(torch.ops.aten.argmax.default, [y, -1], y.argmax(-1))
            del y
            died.append(alive() is None)
            return x

    model, routing = Deciding(), Routing()
    routing.know(model)
    model(torch.randn(2, 4))
    assert died == [True]


class Conjugated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(self.first(x), dim=-1)
        return torch.fft.irfft(spectrum * spectrum.conj(), n=WIDTH, dim=-1)


def test_a_saved_tensor_that_is_conjugated_lazily_comes_back_as_such() -> None:
    assert_equal_to_fake_step(forecaster_of(FakeToy(Conjugated, lambda: [torch.randn(8, WIDTH)])), "none")


class Penalised(nn.Module):
    """Takes a gradient in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((self.first(x) ** 3).sum(), x, create_graph=True)
        return gradient.square()


def test_a_forward_that_takes_a_gradient_is_forecast_by_whole_steps() -> None:
    forecaster = forecaster_of(FakeToy(Penalised, lambda: [torch.randn(8, WIDTH)]))
    for _ in range(2):
        with pytest.raises(CannotRearrangeError, match="takes out what it has saved"):
            forecaster.fast("first")
    assert forecaster.forecast("first") == forecaster.by_fake_step("first")[0]
