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
    # (8, 12, 1024, 64) in fp32, and a row sum a query.
    expected = 24 * MIB + 384 * KIB
    assert taken(aten._scaled_dot_product_flash_attention_backward.default, q, q, q, q) == expected


def test_flash_attention_copies_a_gradient_that_does_not_lie_as_its_result_does() -> None:
    """It wants (batch, length, heads, size) contiguous: what a linear layer's backward hands it, seen transposed. cuDNN
    takes any strides but for the last dimension's."""
    lies_so, otherwise = heads(torch.bfloat16), heads(torch.bfloat16).contiguous()
    strided = torch.empty(8, 12, 64, 1024, dtype=torch.bfloat16, device="meta").transpose(2, 3)

    def copied(op: object, grad: torch.Tensor) -> int:
        return taken(op, grad, lies_so, lies_so, lies_so) - taken(op, lies_so, lies_so, lies_so, lies_so)

    flash = aten._scaled_dot_product_flash_attention_backward.default
    assert [copied(flash, grad) for grad in (lies_so, otherwise, strided)] == [0, 12 * MIB, 12 * MIB]
    cudnn = aten._scaled_dot_product_cudnn_attention_backward.default
    assert [copied(cudnn, grad) for grad in (lies_so, otherwise, strided)] == [0, 0, 12 * MIB]


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


def embedding(length: int, dtype: torch.dtype, *, width: int = 768, weights: int = 50257) -> int:
    grad = torch.empty(1, length, width, dtype=dtype, device="meta")
    indices = torch.empty(1, length, dtype=torch.long, device="meta")
    return taken(aten.embedding_dense_backward.default, grad, indices, weights, -1, False)


def test_embedding_backward_sums_up_to_ten_rows_of_an_index_in_fp32_once_it_sorts() -> None:
    assert embedding(3072, torch.float32) == 0
    parts = 819 + 8192  # an index may be met once, or ten times and more
    assert embedding(8192, torch.float32) == (5 * 8192 + parts) * 8 + parts * 768 * 4
    assert embedding(8192, torch.bfloat16) == embedding(8192, torch.float32)


def test_few_weights_met_often_are_summed_in_place() -> None:
    """As T5's position bias: 32 weights of 8 heads for 1024 × 1024 places. What remains is the sort."""
    indices = 2**20
    assert embedding(indices, torch.float32, width=8, weights=32) == 5 * indices * 8 - 32 * 8 * 4
    # In half precision a copy of the result, in fp32, takes the sums.
    parts = 6553 + 32
    expected = (3 * 65536 + 2 * 32 + 2 * parts) * 8 + 32 * 8192 * 4
    assert embedding(65536, torch.bfloat16, width=8192, weights=32) == expected
    # As many blocks as the device has room for, and there are two passes again.
    parts = 6553 + 600
    expected = (3 * 65536 + 2 * 600 + parts) * 8 + parts * 1024 * 4
    assert embedding(65536, torch.bfloat16, width=1024, weights=600) == expected


def test_other_ops_take_nothing_and_unknown_ones_are_named() -> None:
    workspaces = KernelWorkspaces(target("h200"))
    x = torch.empty(8, 8, device="meta")
    assert workspaces(aten.mm.default, (x, x), {}, x) == 0
    assert workspaces.unknown == {}
    workspaces(aten.convolution.default, (), {}, x)
    workspaces(aten.native_batch_norm.default, (), {}, x)
    assert workspaces.unknown == {
        "convolution": "cuDNN's workspace",
        "native_batch_norm": "what cuDNN takes and reserves where it runs it instead",
    }


def test_cublas_has_a_workspace_for_forward_and_one_for_backward() -> None:
    blocks = library_blocks(target("h200"))
    assert [(block.size_bytes, block.role, block.birth) for block in blocks] == [(32 * MIB, LIBRARY, None)] * 2
