"""Fake tensors that know their values, and fake kernels that torch lacks."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode

from bench.trace.routing import Routing
from bench.trace.values import KnownValues, known_value, with_value

MASK = torch.tensor([[True, False, True], [False, False, True]])


def known(tensor: torch.Tensor) -> torch.Tensor:
    value = known_value(tensor)
    assert value is not None
    return value


def test_integers_that_follow_from_constants_are_known() -> None:
    with FakeTensorMode(), KnownValues():
        positions = torch.arange(5) + 1
        is_late = positions > 3
        assert bool(is_late.any())
        assert int(positions.sum()) == 15
    assert isinstance(positions, FakeTensor)
    assert known(positions).tolist() == [1, 2, 3, 4, 5]


def test_a_value_that_follows_from_floats_is_not_known() -> None:
    with FakeTensorMode(), KnownValues(), pytest.raises(DataDependentOutputException):
        bool((torch.zeros(3) > 0).any())


def test_a_value_is_forgotten_when_something_unknown_is_written_over_it() -> None:
    with FakeTensorMode(), KnownValues():
        numbers = torch.arange(3)
        numbers.copy_(torch.zeros(3))
    assert known_value(numbers) is None


def test_shapes_that_hang_on_known_values_are_the_real_ones() -> None:
    with FakeTensorMode() as mode, KnownValues():
        mask = with_value(mode.from_tensor(MASK), MASK)
        values = torch.empty(2, 3, 4)
        rows, columns = torch.where(mask)
        assert (known(rows).tolist(), known(columns).tolist()) == ([0, 0, 1], [0, 2, 2])
        assert values[mask].shape == (3, 4)
        assert torch.masked_select(values[..., 0], mask).shape == (3,)
        assert [int(row) for row in rows] == [0, 0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("a", "b"),
    [((8, 16), (3, 16, 8)), ((16, 8), (8, 8)), ((3, 8, 16), (3, 16, 8)), ((3, 8, 16), (16, 8))],
)
def test_grouped_matmuls_have_the_shapes_and_strides_of_the_real_ones(
    a: tuple[int, ...], b: tuple[int, ...], dtype: torch.dtype
) -> None:
    def multiplied() -> torch.Tensor:
        left, right = torch.zeros(a, dtype=dtype), torch.zeros(b, dtype=dtype)
        ends = torch.tensor([2, 4, 8], dtype=torch.int32) if len(a) == 2 or len(b) == 2 else None
        return torch._grouped_mm(left, right, ends)

    real = multiplied()
    with FakeTensorMode(allow_non_fake_inputs=True), KnownValues():
        fake = multiplied()
    assert isinstance(fake, FakeTensor)
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


def test_layer_norms_gradient_is_contiguous_as_the_kernels_make_it() -> None:
    def gradient() -> torch.Tensor:
        x = torch.ones(2, 6, 8)
        mean, rstd = torch.zeros(2, 6, 1), torch.ones(2, 6, 1)
        grad = torch.ones(2, 8, 6).transpose(1, 2)
        made: torch.Tensor = torch.ops.aten.native_layer_norm_backward.default(
            grad, x, [8], mean, rstd, None, None, [True, False, False]
        )[0]
        return made

    with FakeTensorMode(), KnownValues():
        fake = gradient()
    assert fake.stride() == gradient().stride()


def test_a_choice_among_floats_is_spread_evenly_and_said_to_be_assumed() -> None:
    routing = Routing()
    with FakeTensorMode(), KnownValues(routing):
        _, chosen = torch.topk(torch.empty(6, 4), 2, dim=-1)
    assert torch.bincount(known(chosen).flatten()).tolist() == [3, 3, 3, 3]
    assert all(len(set(row)) == 2 for row in known(chosen).tolist())
    assert routing.assumed == {("", "aten.topk.default")}


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_a_norm_of_reduced_inputs_keeps_its_statistics_in_the_dtype_of_the_kernels(weights: torch.dtype) -> None:
    def dtypes() -> list[torch.dtype]:
        x, weight = torch.ones(2, 4, 8, dtype=torch.bfloat16), torch.ones(8, dtype=weights)
        layer = torch.native_layer_norm(x, [8], weight, weight, 1e-5)
        group = torch.native_group_norm(x, weight[:4], weight[:4], 2, 4, 8, 2, 1e-5)
        return [made.dtype for made in (*layer, *group)]

    real = dtypes()
    with FakeTensorMode(), KnownValues():
        assert dtypes() == real
