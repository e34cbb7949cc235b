"""Counted operations: exact on known shapes, FlopCounterMode's where it has formulas, never silently zero."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from bench.measure import OpCounter, UncountedOpError
from bench.placement.applying import apply
from bench.placement.region_forward import in_replay


def test_flops_are_those_of_flop_counter_mode() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 5))
    x = torch.randn(2, 3, 8, 8)
    with FlopCounterMode(display=False) as expected:
        model(x).sum().backward()
    with OpCounter() as counter:
        model(x).sum().backward()
    assert counter.flops == expected.get_total_flops() > 0


def test_attention_on_the_cpu_is_counted() -> None:
    # (batch 2, heads 3, length 16, width 8): two products of 2·b·h·l²·w forward, and their five in backward.
    query, key, value = (torch.randn(2, 3, 16, 8, requires_grad=True) for _ in range(3))
    product = 2 * 2 * 3 * 16 * 16 * 8
    with OpCounter() as counter:
        result = scaled_dot_product_attention(query, key, value)
    assert counter.flops == 2 * product
    assert counter.attention_ops == ["_scaled_dot_product_flash_attention_for_cpu"]
    with OpCounter() as counter:
        result.sum().backward()
    assert counter.flops == 5 * product


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda: torch.mv(torch.ones(3, 4), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.dot(torch.ones(5), torch.ones(5)), 2 * 5),
        (lambda: torch.addmv(torch.ones(3), torch.ones(3, 4), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.addr(torch.ones(3, 4), torch.ones(3), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.ones(3).exp(), 0),
    ],
)
def test_flops_of_one_op(run: object, flops: int) -> None:
    with OpCounter() as counter:
        run()  # type: ignore[operator]
    assert counter.flops == flops


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_backward_of_a_convolution_is_two_forwards_whatever_its_groups(groups: int) -> None:
    convolution = nn.Conv2d(8, 8, 3, groups=groups)
    image = torch.randn(2, 8, 6, 6, requires_grad=True)
    with OpCounter() as counter:
        result = convolution(image)
    assert counter.flops == 2 * (2 * 8 * 4 * 4) * (8 // groups) * 9
    with OpCounter() as backward:
        result.sum().backward()
    assert backward.flops == 2 * counter.flops


@pytest.mark.parametrize("offsets", [[2, 6], [0, 6], [6, 6]])
def test_a_grouped_matmul_counts_every_row_once_however_they_are_grouped(offsets: list[int]) -> None:
    rows, weights = torch.randn(6, 16, requires_grad=True), torch.randn(2, 16, 8, requires_grad=True)
    with OpCounter() as counter:
        result = torch.nn.functional.grouped_mm(rows, weights, offs=torch.tensor(offsets, dtype=torch.int32))
    assert counter.flops == 2 * 6 * 16 * 8
    with OpCounter() as backward:
        result.backward(torch.ones(6, 8))
    assert backward.flops == 2 * counter.flops


def test_a_compute_op_without_a_formula_is_an_error() -> None:
    lstm = nn.LSTM(4, 4)
    library = torch.library.Library("bench_test", "DEF")
    library.define("strange_mm(Tensor a) -> Tensor")
    library.impl("strange_mm", lambda a: a.clone(), "CompositeExplicitAutograd")
    with pytest.raises(UncountedOpError, match="bench_test::strange_mm does compute"), OpCounter():
        torch.ops.bench_test.strange_mm(torch.ones(2))
    del lstm


def test_replayed_work_is_one_more_forward_of_the_region() -> None:
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)) for _ in range(3)])
    x = torch.randn(4, 8)
    with OpCounter() as plain:
        layers(x).sum().backward()
    with apply(layers, "0..2:each@no-early-stop"), OpCounter(in_replay) as placed:
        layers(x).sum().backward()
    assert plain.replay_flops == plain.replay_ops == 0
    assert placed.replay_flops == 3 * 2 * (2 * 4 * 8 * 8)
    assert placed.flops == plain.flops + placed.replay_flops
    assert placed.replay_ops > 0
