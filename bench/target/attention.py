"""Which attention CUDA runs: the choice that `scaled_dot_product_attention` makes, from shapes, dtypes and the device.

After `select_sdp_backend` in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and the checks in sdp_utils_cpp.h,
for dense tensors, default settings, and the cuDNN that the CUDA wheels of this PyTorch bring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

CUDNN, FLASH, EFFICIENT, MATH = "cudnn", "flash", "efficient", "math"
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Attention:
    """A call of scaled_dot_product_attention, as far as the choice looks at it."""

    query: torch.Tensor
    """Shape (batch, heads, queries, head size)."""
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool
    """Whether fewer heads of keys and values than of queries are meant."""

    @property
    def needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.query, self.key, self.value))


def choose_attention(call: Attention, compute_capability: tuple[int, ...]) -> str:
    """CUDNN, FLASH, EFFICIENT or MATH."""
    order: tuple[tuple[str, Callable[[Attention, tuple[int, ...]], bool]], ...] = (
        (FLASH, _can_use_flash),
        (EFFICIENT, _can_use_efficient),
    )
    cudnn: tuple[tuple[str, Callable[[Attention, tuple[int, ...]], bool]], ...] = ((CUDNN, _can_use_cudnn),)
    # From cuDNN 9.15.1 on it is asked first on data-centre Hopper and Blackwell (check_prefer_cudnn_attention);
    # elsewhere it is asked last of all, after the math kernel, which never refuses.
    order = cudnn + order if compute_capability[0] in (9, 10) else order
    return next((name for name, can_use in order if can_use(call, compute_capability)), MATH)


def _can_use_cudnn(call: Attention, capability: tuple[int, ...]) -> bool:
    head, value_head = call.query.shape[-1], call.value.shape[-1]
    return (
        _fused_shapes(call)
        and capability >= (8, 0)
        and call.query.dtype in HALF
        and call.query.dtype == call.key.dtype == call.value.dtype
        and (call.dropout * 16).is_integer()  # its dropout knows sixteenths alone
        and _mask_fits_cudnn(call)
        and _heads_match(call, gqa=True, same_keys_and_values=False)
        and max(head, value_head) <= 128
        and head % 8 == 0
        and value_head % 8 == 0
        and call.key.shape[2] != 1
        and not (call.dropout and call.query.shape[2] == 1)
        and _last_strides_are_one(call, ignore_single=True)
    )


def _can_use_flash(call: Attention, capability: tuple[int, ...]) -> bool:
    head = call.query.shape[-1]
    return (
        _fused_shapes(call)
        and call.mask is None
        and head == call.key.shape[-1] == call.value.shape[-1]
        and head <= 256
        and (8, 0) <= capability <= (12, 1)
        and _flash_backward_exists(call, capability)
        and not (call.is_causal and call.query.shape[-2] != call.key.shape[-2])
        and call.query.dtype in HALF
        and call.query.dtype == call.key.dtype == call.value.dtype
        and _heads_match(call, gqa=True, same_keys_and_values=True)
        and _last_strides_are_one(call, ignore_single=True)
    )


def _can_use_efficient(call: Attention, capability: tuple[int, ...]) -> bool:
    half = call.query.dtype in HALF
    alignment = 4 if capability[0] >= 8 else 1
    if capability[0] >= 8 or (capability[0] == 7 and half):  # tensor cores
        alignment = max(alignment, 8 if half else 4)
    head, value_head = call.query.shape[-1], call.value.shape[-1]
    dtypes = (*HALF, torch.float32) if capability[0] >= 8 else (torch.float16, torch.float32)
    return (
        _fused_shapes(call)
        and head == call.key.shape[-1]
        and head > 0
        and value_head > 0
        and head % alignment == 0
        and value_head % alignment == 0
        and call.query.dtype in dtypes
        and call.query.dtype == call.key.dtype == call.value.dtype
        and _heads_match(call, gqa=False, same_keys_and_values=True)
        and _last_strides_are_one(call, ignore_single=False)
    )


def _fused_shapes(call: Attention) -> bool:
    return (
        call.query.dim() == call.key.dim() == call.value.dim() == 4
        and call.query.shape[-2] > 0
        and call.key.shape[-2] > 0
        and call.query.shape[0] == call.key.shape[0] == call.value.shape[0]
    )


def _heads_match(call: Attention, *, gqa: bool, same_keys_and_values: bool) -> bool:
    queries, keys, values = (tensor.shape[1] for tensor in (call.query, call.key, call.value))
    if not (call.enable_gqa and gqa):
        return queries == keys == values
    if same_keys_and_values and keys != values:
        return False
    return queries % keys == 0 and queries % values == 0


def _last_strides_are_one(call: Attention, *, ignore_single: bool) -> bool:
    if call.mask is not None and call.mask.stride(-1) != 1:
        return False
    inputs = all(tensor.stride(-1) == 1 for tensor in (call.query, call.key, call.value))
    return inputs or (ignore_single and call.query.shape[-1] == 1)


def _mask_fits_cudnn(call: Attention) -> bool:
    mask = call.mask
    if mask is None:
        return True
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    wanted = (call.query.shape[0], call.query.shape[1], call.query.shape[2], call.key.shape[2])
    return all(size in (1, want) for size, want in zip(reversed(mask.shape), reversed(wanted), strict=False))


def _flash_backward_exists(call: Attention, capability: tuple[int, ...]) -> bool:
    """Backward of large heads takes more shared memory than consumer cards have."""
    small_card = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    head = call.query.shape[-1]
    return not (call.needs_gradient and small_card) or head <= 192 or (not call.dropout and head > 224)
