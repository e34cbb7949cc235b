"""Ops that CUDA splits otherwise than a device without kernels would: attention above all.

An op that PyTorch composes of others is composed by the device, so what is saved for backward depends on the device
too. Registered under the device's autograd key, such a choice is seen by a replay and by every caller alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from bench.target.attention import CUDNN, EFFICIENT, FLASH, Attention, choose_attention
from bench.target.spec import Target

aten = torch.ops.aten
FLASH_ALIGNMENT = 8
"""Flash attention pads the head size to a multiple of this."""
MASK_ALIGNMENT = 16
"""The memory-efficient kernel reads a mask whose rows begin at multiples of this."""

_libraries: list[torch.library.Library] = []


def register_kernels(target: Target) -> None:
    """For the device that is registered under PrivateUse1; once in a process."""
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)

    def scaled_dot_product_attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        call = Attention(
            query=query,
            key=key,
            value=value,
            mask=attn_mask,
            dropout=dropout_p,
            is_causal=is_causal,
            enable_gqa=enable_gqa,
        )
        return _attend(call, choose_attention(call, target.compute_capability), scale)

    library.impl("scaled_dot_product_attention", scaled_dot_product_attention, dispatch_key="AutogradPrivateUse1")
    library.impl("softmax.int", _in_one_pass(aten._softmax), dispatch_key="AutogradPrivateUse1")
    library.impl("log_softmax.int", _in_one_pass(aten._log_softmax), dispatch_key="AutogradPrivateUse1")


def _in_one_pass(op: Any) -> Callable[..., torch.Tensor]:
    """A softmax of fp16 values with an fp32 result needs no fp32 copy of them on CUDA (`softmax` and `log_softmax` in
    aten/src/ATen/native/SoftMax.cpp); of bf16 values it does."""

    def softmax(values: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        if values.dtype == torch.float16 and dtype == torch.float32:
            return op(values, dim, True)
        return op(values if dtype is None else values.to(dtype), dim, False)

    return softmax


def _attend(call: Attention, kernel: str, scale: float | None) -> torch.Tensor:
    """`scaled_dot_product_attention` in aten/src/ATen/native/transformers/attention.cpp, for the kernel chosen."""
    query, key, value, dropout = call.query, call.key, call.value, call.dropout
    mask = _float_mask(call.mask, query.dtype)
    if kernel == FLASH:
        head = query.shape[-1]
        padded = [_padded(tensor, FLASH_ALIGNMENT) for tensor in (query, key, value)]
        scale = 1 / math.sqrt(head) if scale is None else scale
        result = aten._scaled_dot_product_flash_attention(*padded, dropout, call.is_causal, False, scale=scale)[0]
        return result if result.shape[-1] == head else result[..., :head]
    if kernel == CUDNN:
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, call.needs_gradient, dropout, call.is_causal, False, scale=scale
        )[0]
    if kernel == EFFICIENT:
        if mask is not None:
            mask = _padded(mask, MASK_ALIGNMENT).expand(*query.shape[:2], query.shape[2], key.shape[2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, call.needs_gradient, dropout, call.is_causal, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout, call.is_causal, None, scale=scale, enable_gqa=call.enable_gqa
    )[0]


def _float_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Kernels add a mask; one that says which positions take part becomes 0 and -inf (`convert_boolean_attn_mask`)."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, torch.zeros((), dtype=dtype, device=mask.device), float("-inf"))


def _padded(tensor: torch.Tensor, alignment: int) -> torch.Tensor:
    short = -tensor.shape[-1] % alignment
    if not short:
        return tensor
    padded = torch.nn.functional.pad(tensor, (0, short))
    return padded if alignment == FLASH_ALIGNMENT else padded[..., : tensor.shape[-1]]
