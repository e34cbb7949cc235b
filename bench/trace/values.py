"""Fake tensors that know their values where those are cheap to know: integers and booleans that follow from constants
and from the batch. So a model that looks at its masks, positions or lengths takes the way that it takes for real.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from bench.trace.fake_ops import FAKE_KERNELS
from bench.trace.routing import Routing, decides

VALUE = "_bench_value"
MAX_ELEMENTS = 2**24
"""No value is followed beyond this: 128 MiB of int64."""
aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
_READS = frozenset({aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default, aten.item.default})


def with_value(fake: FakeTensor, value: torch.Tensor) -> FakeTensor:
    """`fake`, knowing that it holds `value`, which lies in host memory."""
    setattr(fake, VALUE, value)
    return fake


def known_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """What a fake tensor is known to hold, in host memory."""
    value: torch.Tensor | None = getattr(tensor, VALUE, None)
    return value


class KnownValues(TorchDispatchMode):
    """Enter it right after the FakeTensorMode. It also calls the fake kernels that torch lacks."""

    def __init__(self, routing: Routing | None = None) -> None:
        """`routing`: what the model decides by its data; spread evenly by default."""
        super().__init__()
        self._routing = routing or Routing()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # asked some times for each op, so it must be quick
        kwargs = kwargs or {}
        if _hangs_on_values(func):
            return self._shaped_by_data(func, args, kwargs)
        result = FAKE_KERNELS.get(func, func)(*args, **kwargs)
        if isinstance(result, FakeTensor):
            if not _is_followed(result) or _is_random(func):
                return self._decided(func, args, result)
        elif not isinstance(result, (tuple, list)) or not all(
            isinstance(leaf, FakeTensor) and _is_followed(leaf) for leaf in result
        ):
            return self._decided(func, args, result)
        value = _computed(func, args, kwargs)
        if value is not None:
            for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
                with_value(fake, real)
        elif func._schema.is_mutable:
            for fake in tree_leaves(result):
                if hasattr(fake, VALUE):
                    delattr(fake, VALUE)
        return self._decided(func, args, result)

    def _decided(self, func: Any, args: tuple[Any, ...], result: Any) -> Any:
        """A choice among floating-point values comes out as it did for real."""
        if not decides(func):
            return result
        leaves = tree_leaves(result)
        decision = self._routing.decision(func, args, result)
        for fake, value in zip(leaves, decision or (), strict=False):
            if isinstance(value, torch.Tensor) and value.shape == fake.shape and known_value(fake) is None:
                with_value(fake, value)
        return result

    def _shaped_by_data(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The op's result, or its shape, hangs on values: on known ones, or on what was decided for real."""
        if func is aten.index.Tensor:
            return func(args[0], _without_masks(args[1]))
        if func is aten.masked_select.default and known_value(args[1]) is not None:
            return args[0].new_empty(_num_selected(args[0], args[1]))
        value = _computed(func, args, kwargs)
        decision = self._routing.decision(func, args, None) if decides(func) else None
        if value is None and decision is not None and all(leaf is not None for leaf in decision):
            value = decision if len(decision) > 1 else decision[0]
        if value is None:
            return func(*args, **kwargs)  # which says that it cannot know
        device = next((leaf.device for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)), None)
        return tree_map(lambda leaf: _fake_like(leaf, device) if isinstance(leaf, torch.Tensor) else leaf, value)


@cache
def _hangs_on_values(func: Any) -> bool:
    return func in _READS or torch.Tag.dynamic_output_shape in func.tags


@cache
def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _computed(func: Any, args: Any, kwargs: Any) -> Any:
    """What the op makes of known values; None where one is not known."""
    known = _values(args, kwargs)
    if known is None:
        return None
    with no_dispatch(), torch.no_grad():
        try:
            return func(*known[0], **known[1])
        except NotImplementedError:  # the CPU lacks the kernel for this dtype
            return None


def _fake_like(value: torch.Tensor, device: torch.device | None) -> torch.Tensor:
    fake = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return with_value(fake, value) if isinstance(fake, FakeTensor) else fake


def _num_selected(source: torch.Tensor, mask: torch.Tensor) -> int:
    value = known_value(mask)
    assert value is not None
    with no_dispatch():
        return int(value.expand(torch.broadcast_shapes(source.shape, mask.shape)).sum())


def _without_masks(indices: Any) -> list[Any]:
    """Indices with known masks as the positions of what is true, which is what the op makes of them."""
    found: list[Any] = []
    for index in indices:
        value = known_value(index) if isinstance(index, torch.Tensor) and index.dtype == torch.bool else None
        if value is None:
            found.append(index)
            continue
        with no_dispatch():
            positions = value.nonzero(as_tuple=True)
        found.extend(_fake_like(position, index.device) for position in positions)
    return found


@contextmanager
def unseen_by_libraries() -> Iterator[None]:
    """transformers leaves the way that it takes for real where it sees a FakeTensor; while this lasts, it sees none."""
    module = sys.modules.get("transformers.utils.import_utils")
    if module is None or not hasattr(module, "is_fake_tensor"):
        yield
        return
    before = module.is_fake_tensor
    module.is_fake_tensor = lambda _: False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.is_fake_tensor = before  # type: ignore[attr-defined]


def _is_followed(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.numel() <= MAX_ELEMENTS


def _values(args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The arguments with values for fake tensors, on the CPU; None where one is not known."""
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and isinstance(leaf, FakeTensor) and not hasattr(leaf, VALUE):
            return None

    def real(leaf: Any) -> Any:
        if isinstance(leaf, FakeTensor):
            return getattr(leaf, VALUE)
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    return tree_map(real, args), tree_map(real, kwargs)
