"""What kernels take for themselves, against bytes worked out by hand from PyTorch's sources."""

from __future__ import annotations

import torch

from bench.target.spec import MIB
from bench.target.workspaces import KernelWorkspaces, library_blocks
from bench.trace.log import LIBRARY
from tests.target.targets import target

aten = torch.ops.aten
KIB = 2**10
H200 = KernelWorkspaces(target("h200"))


def heads(dtype: torch.dtype, *, batch: int = 8, num: int = 12, length: int = 1024, size: int = 64) -> torch.Tensor:
    """(batch, heads, length, size) as a linear layer lays it out."""
    return torch.empty(batch, length, num, size, dtype=dtype, device="meta").transpose(1, 2)


def taken(op: object, *args: object) -> int:
    return H200(op, args, {}, None)


def test_flash_attention_sums_the_gradient_of_queries_in_fp32() -> None:
    q = heads(torch.bfloat16)
    # (8, 12, 1024, 64) in fp32, and a row sum a query; the gradient, strided as the queries are, is copied.
    expected = 24 * MIB + 384 * KIB + 12 * MIB
    assert taken(aten._scaled_dot_product_flash_attention_backward.default, q, q, q, q) == expected


def test_flash_attention_rounds_lengths_up_to_128_and_heads_up_to_32() -> None:
    q = torch.empty(1, 1, 130, 40, dtype=torch.bfloat16, device="meta")
    expected = 256 * 64 * 4 + 256 * 4
    assert taken(aten._scaled_dot_product_flash_attention_backward.default, q, q, q, q) == expected


def test_flash_attention_keeps_gradients_of_shared_keys_a_head() -> None:
    q = torch.empty(1, 8, 128, 64, dtype=torch.bfloat16, device="meta")
    k = torch.empty(1, 2, 128, 64, dtype=torch.bfloat16, device="meta")
    dense = taken(aten._scaled_dot_product_flash_attention_backward.default, q, q, q, q)
    shared = taken(aten._scaled_dot_product_flash_attention_backward.default, q, q, k, k)
    assert shared - dense == 2 * 8 * 128 * 64 * 2


def test_the_memory_efficient_kernel_locks_and_sums_tiles_of_64_queries_in_fp32() -> None:
    q = heads(torch.float32)
    # Tiles of 64 × 64 with 16 bytes for lock and counter, one a 64 queries; delta besides. The product of gradient and
    # result, in fp32 and whole, with two row sums, is as large but for that, and comes before it.
    tiles = 8 * 12 * 16 * (16 + 64 * 64 * 4)
    delta = 384 * KIB
    assert taken(aten._scaled_dot_product_efficient_attention_backward.default, q, q, q, q) == max(
        24 * MIB + 2 * delta, delta + tiles
    )


def test_the_memory_efficient_kernel_in_half_precision_writes_no_product() -> None:
    q = heads(torch.float16)
    expected = 384 * KIB + 8 * 12 * 16 * (16 + 64 * 64 * 4)
    assert taken(aten._scaled_dot_product_efficient_attention_backward.default, q, q, q, q) == expected


def test_embedding_backward_writes_one_fp32_row_an_index_once_it_sorts() -> None:
    def of(length: int, dtype: torch.dtype) -> int:
        grad = torch.empty(1, length, 768, dtype=dtype, device="meta")
        indices = torch.empty(1, length, dtype=torch.long, device="meta")
        return taken(aten.embedding_dense_backward.default, grad, indices, 50257, -1, False)

    assert of(3072, torch.float32) == 0
    assert of(8192, torch.float32) == 6 * 8192 * 8 + 8192 * 768 * 4
    assert of(8192, torch.bfloat16) == of(8192, torch.float32)


def test_other_ops_take_nothing_and_unknown_ones_are_named() -> None:
    workspaces = KernelWorkspaces(target("h200"))
    x = torch.empty(8, 8, device="meta")
    assert workspaces(aten.mm.default, (x, x), {}, x) == 0
    assert workspaces.unknown == {}
    workspaces(aten.convolution.default, (), {}, x)
    assert workspaces.unknown == {"convolution": "cuDNN's workspace"}


def test_cublas_has_a_workspace_for_forward_and_one_for_backward() -> None:
    blocks = library_blocks(target("h200"))
    assert [(block.size_bytes, block.role, block.birth) for block in blocks] == [(32 * MIB, LIBRARY, None)] * 2
