"""Fake kernels that torch lacks, or whose strides are not those of the real ones. Each entry is called instead of the
op while a FakeTensorMode is on; torch itself is left as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten


def _grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offsets: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """torch's own takes bfloat16 alone, though the kernels take float32 and float16 too. Rows in groups times a stack
    of matrices, a stack times columns in groups, groups of the inner dimension, or stack times stack."""
    if a.dim() == 2 and b.dim() == 2:
        assert offsets is not None, "both sides in groups need their ends"
        size = [offsets.shape[0], a.shape[0], b.shape[1]]
    elif a.dim() == 2 or b.dim() == 2:
        size = [a.shape[-2], b.shape[-1]]
    else:
        size = [a.shape[0], a.shape[1], b.shape[-1]]
    dtype = out_dtype or a.dtype
    if a.device.type == "cpu":
        return a.new_empty(size, dtype=dtype)
    per_row = 16 // dtype.itemsize  # CUDA's rows begin at multiples of 16 bytes
    row = -(-size[-1] // per_row) * per_row
    stride = [size[1] * row, row, 1] if len(size) == 3 else [row, 1]
    return a.new_empty_strided(size, stride, dtype=dtype)


def _layer_norm_backward(*args: Any, **kwargs: Any) -> Any:
    """torch's own keeps the gradient's strides where the kernels give contiguous results."""
    made = aten.native_layer_norm_backward.default(*args, **kwargs)
    return tuple(t if t is None or t.is_contiguous() else t.new_empty(t.shape) for t in made)


def _norm(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """torch's own gives the mean and the deviation the input's dtype on the CPU; the kernels keep them in float32 where
    the input is reduced and the weights are not, as under autocast."""

    def normed(*args: Any, **kwargs: Any) -> Any:
        made, *statistics = kernel(*args, **kwargs)
        dtypes = {arg.dtype for arg in args if isinstance(arg, torch.Tensor)}
        if len(dtypes) > 1:
            statistics = [t.new_empty(t.shape, dtype=torch.float32) for t in statistics]
        return made, *statistics

    return normed


FAKE_KERNELS: Mapping[Any, Callable[..., Any]] = {
    aten._grouped_mm.default: _grouped_mm,
    aten.native_layer_norm.default: _norm(aten.native_layer_norm.default),
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_group_norm.default: _norm(aten.native_group_norm.default),
}
