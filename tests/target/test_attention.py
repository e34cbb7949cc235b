"""Which attention CUDA runs, by what decides it; the cases are read off PyTorch's own checks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.target.attention import CUDNN, EFFICIENT, FLASH, MATH, Attention, choose_attention

V100, T4, A100, RTX3090, L4, H100, B200 = (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0)
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def call(dtype: torch.dtype, head: int = 64, **changed: Any) -> Attention:
    query, kept = (torch.empty(2, heads, 128, head, dtype=dtype, device="meta", requires_grad=True) for heads in (8, 8))
    fields: dict[str, Any] = {
        "query": query,
        "key": kept,
        "value": kept,
        "mask": None,
        "dropout": 0.0,
        "is_causal": True,
        "enable_gqa": False,
    }
    return Attention(**(fields | changed))


def mask(*shape: int, dtype: torch.dtype = torch.bool, requires_grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=requires_grad)


@pytest.mark.parametrize(
    ("device", "dtype", "expected"),
    [
        (H100, BF16, CUDNN),
        (B200, FP16, CUDNN),
        (A100, BF16, FLASH),
        (L4, FP16, FLASH),
        (T4, FP16, EFFICIENT),
        (V100, FP16, EFFICIENT),
        (T4, BF16, MATH),
        (H100, FP32, EFFICIENT),
        (T4, FP32, EFFICIENT),
    ],
)
def test_the_device_and_the_dtype_decide(device: tuple[int, int], dtype: torch.dtype, expected: str) -> None:
    assert choose_attention(call(dtype), device) == expected


def test_a_mask_rules_out_flash_attention() -> None:
    masked = call(BF16, mask=mask(2, 1, 128, 128), is_causal=False)
    assert choose_attention(masked, A100) == EFFICIENT
    assert choose_attention(masked, H100) == CUDNN


def test_a_mask_that_is_trained_is_left_to_the_memory_efficient_kernel() -> None:
    """As T5's position bias is."""
    bias = mask(1, 8, 128, 128, dtype=BF16, requires_grad=True)
    assert choose_attention(call(BF16, mask=bias, is_causal=False), H100) == EFFICIENT


def test_dropout_of_a_tenth_is_no_sixteenth_and_rules_out_cudnn() -> None:
    assert choose_attention(call(BF16, dropout=0.1), H100) == FLASH
    assert choose_attention(call(BF16, dropout=0.125), H100) == CUDNN


@pytest.mark.parametrize(("head", "expected"), [(128, CUDNN), (136, FLASH), (256, FLASH), (264, EFFICIENT)])
def test_large_heads_rule_out_cudnn_and_then_flash_attention(head: int, expected: str) -> None:
    assert choose_attention(call(BF16, head=head), H100) == expected


def test_backward_of_very_large_heads_does_not_fit_consumer_cards() -> None:
    assert choose_attention(call(BF16, head=256), RTX3090) == FLASH
    assert choose_attention(call(BF16, head=208), RTX3090) == EFFICIENT
    assert choose_attention(call(BF16, head=256, dropout=0.1), RTX3090) == EFFICIENT


def test_heads_that_tensor_cores_cannot_take_go_the_slow_way() -> None:
    """12 is no multiple of 8; flash attention pads it, the memory-efficient kernel refuses it in half precision."""
    assert choose_attention(call(BF16, head=12), A100) == FLASH
    masked = call(BF16, head=12, mask=mask(128, 128), is_causal=False)
    assert choose_attention(masked, A100) == MATH
    assert choose_attention(call(FP32, head=12), A100) == EFFICIENT


def test_fewer_heads_of_keys_than_of_queries_have_no_kernel_in_fp32() -> None:
    few = torch.empty(2, 2, 128, 64, dtype=FP32, device="meta")
    assert choose_attention(call(FP32, key=few, value=few, enable_gqa=True), H100) == MATH
    half = few.to(BF16)
    assert choose_attention(call(BF16, key=half, value=half, enable_gqa=True), H100) == CUDNN
    assert choose_attention(call(BF16, key=half, value=half, enable_gqa=True), A100) == FLASH


def test_causal_attention_between_different_lengths_rules_out_flash_attention() -> None:
    longer = torch.empty(2, 8, 256, 64, dtype=BF16, device="meta")
    assert choose_attention(call(BF16, key=longer, value=longer), A100) == EFFICIENT
    assert choose_attention(call(BF16, key=longer, value=longer, is_causal=False), A100) == FLASH


def test_three_dimensions_go_the_slow_way() -> None:
    flat = torch.empty(8, 128, 64, dtype=BF16, device="meta")
    assert choose_attention(call(BF16, query=flat, key=flat, value=flat), H100) == MATH


def test_a_last_dimension_that_is_strided_goes_the_slow_way() -> None:
    turned = torch.empty(2, 8, 64, 128, dtype=BF16, device="meta").transpose(2, 3)
    assert choose_attention(call(BF16, query=turned, key=turned, value=turned), H100) == MATH
