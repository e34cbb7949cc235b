"""Fake tensors that know their values where those are cheap to know: integers and booleans that follow from constants
and from the batch. So a model that looks at its masks, positions or lengths takes the way that it takes for real.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

VALUE = "_bench_value"
MAX_ELEMENTS = 2**24
"""No value is followed beyond this: 128 MiB of int64."""
aten = torch.ops.aten
_READS = frozenset({aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default, aten.item.default})


def with_value(fake: FakeTensor, value: torch.Tensor) -> FakeTensor:
    """`fake`, knowing that it holds `value`, which lies in host memory."""
    setattr(fake, VALUE, value)
    return fake


class KnownValues(TorchDispatchMode):
    """Enter it right after the FakeTensorMode."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _READS:
            known = _values(args, kwargs)
            if known is not None:
                with no_dispatch():
                    return func(*known[0], **known[1])
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, FakeTensor):
            if not _is_followed(result) or torch.Tag.nondeterministic_seeded in func.tags:
                return result
        elif not isinstance(result, (tuple, list)) or not all(
            isinstance(leaf, FakeTensor) and _is_followed(leaf) for leaf in result
        ):
            return result
        known = _values(args, kwargs)
        if known is not None:
            with no_dispatch(), torch.no_grad():
                value = func(*known[0], **known[1])
            for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
                with_value(fake, real)
        elif func._schema.is_mutable:
            for fake in tree_leaves(result):
                if hasattr(fake, VALUE):
                    delattr(fake, VALUE)
        return result


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
