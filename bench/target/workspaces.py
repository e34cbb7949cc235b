"""What CUDA kernels take for themselves while they run, by op, where PyTorch's own source says it.

Each rule names the source that it follows. What cuDNN's convolutions, cub's sorts and CUTLASS' grouped matmuls take
is asked of libraries at run time and is in no source, so it is not in a forecast: see `UNKNOWN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bench.target.spec import Target
from bench.trace.log import LIBRARY, NOWHERE, Storage

aten = torch.ops.aten
FLOAT_BYTES = 4
Rule = Callable[..., int]

UNKNOWN = {
    "convolution": "cuDNN's workspace",
    "convolution_backward": "cuDNN's workspace",
    "native_batch_norm": "what cuDNN takes and reserves where it runs it instead",
    "_grouped_mm": "CUTLASS' argument buffers",
    "_scaled_dot_product_flash_attention": "seed and offset, 1 KiB a call",
    "_scaled_dot_product_cudnn_attention": "seed, offset and cuDNN's workspace",
    "sort": "cub's scratch",
    "_scaled_dot_product_cudnn_attention_backward": "cuDNN's workspace (taken to be FlashAttention's)",
}
"""Op → what of it is not known."""

EMBEDDING_SORTS_ABOVE = 3072
"""Indices from which on embedding's backward sorts them (aten/src/ATen/native/cuda/Embedding.cu)."""


class KernelWorkspaces:
    """A `bench.trace.fake_ledger.Workspace` for one target."""

    def __init__(self, target: Target) -> None:
        self._rules: dict[Any, Rule] = {
            aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
            aten._scaled_dot_product_cudnn_attention_backward.default: _cudnn_backward,
            aten._scaled_dot_product_efficient_attention_backward.default: _EfficientBackward(
                target.compute_capability
            ),
            aten.embedding_dense_backward.default: _EmbeddingBackward(target.num_multiprocessors),
        }
        self.unknown: dict[str, str] = {}
        """Ops that ran and whose workspace is not known, with what it is."""

    def __call__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
        name = func._schema.name.removeprefix("aten::")
        if name in UNKNOWN:
            self.unknown[name] = UNKNOWN[name]
        rule = self._rules.get(func)
        return 0 if rule is None else rule(*args, **kwargs)


def library_blocks(target: Target) -> list[Storage]:
    """What cuBLAS is lent for as long as the process lives: one workspace for the thread of forward and optimizer and
    one for that of backward, since each has a handle of its own. cuBLASLt shares them (`getCUDABlasLtWorkspace` in
    aten/src/ATen/cuda/CublasHandlePool.cpp)."""
    return [
        Storage(
            size_bytes=target.cublas_workspace_bytes,
            role=LIBRARY,
            name=f"cuBLAS workspace of the {thread} thread",
            shape=None,
            dtype=None,
            op=NOWHERE,
            birth=None,
            death=None,
        )
        for thread in ("forward", "backward")
    ]


def _flash_backward(
    grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> int:
    """`_scaled_dot_product_flash_attention_backward_cuda` in transformers/cuda/attention_backward.cu: what the kernel
    takes, and the result's gradient where it does not lie as (batch, queries, heads, head size)."""
    return _flash_kernel(query, key) + _contiguous_copy(grad.transpose(1, 2))


def _cudnn_backward(
    grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> int:
    """`run_cudnn_SDP_bprop` in aten/src/ATen/native/cudnn/MHA.cpp copies the gradient only where its last dimension is
    strided. What cuDNN itself asks for is in no source, and taken to be what FlashAttention takes."""
    return _flash_kernel(query, key) + (0 if grad.stride(-1) == 1 else grad.numel() * grad.element_size())


def _flash_kernel(query: torch.Tensor, key: torch.Tensor) -> int:
    """mha_bwd in flash_attn/flash_api.cpp: the gradient of the queries summed in fp32, the softmax' row sums, and,
    where several heads share keys and values, their gradients a head."""
    batch, heads, queries, head = query.shape
    rows = _up(queries, 128)
    taken = batch * heads * rows * _up(head, 32 if head <= 128 else 64) * FLOAT_BYTES
    taken += batch * heads * rows * FLOAT_BYTES
    if key.shape[1] != heads:
        taken += 2 * batch * key.shape[2] * heads * head * query.element_size()
    return taken


class _EfficientBackward:
    """`_efficient_attention_backward` in transformers/cuda/attention_backward.cu, `workspace_size` in kernel_backward.h
    and the list of kernels in cutlassB.h of mem_eff_attention, for aligned tensors."""

    def __init__(self, compute_capability: tuple[int, ...]) -> None:
        self._capability = compute_capability

    def __call__(
        self, grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
    ) -> int:
        batch, heads, queries, head = query.shape
        is_half = query.dtype in (torch.float16, torch.bfloat16)
        largest = max(head, value.shape[3])
        rows, columns, max_head = self._tile(is_half, largest)
        in_registers = is_half and max_head <= rows
        delta = batch * heads * queries * FLOAT_BYTES
        # Where the kernel does not compute it, grad × result is written out whole in fp32, summed, and transposed.
        product = 0 if is_half else batch * heads * queries * value.shape[3] * FLOAT_BYTES + 2 * delta
        tiles = math.ceil(queries / rows) * math.ceil(head / columns)
        workspace = tiles * (16 + rows * columns * FLOAT_BYTES)
        if is_half and not in_registers:
            splits = max(min(math.ceil(key.shape[2] / columns), 200 // (batch * heads)), 1)
            workspace += splits * columns * (_up(head, rows) + _up(value.shape[3], rows)) * FLOAT_BYTES
        workspace = batch * heads * _up(workspace, 16)
        return max(product, delta + workspace) + _contiguous_copy(grad.transpose(1, 2))

    def _tile(self, is_half: bool, head: int) -> tuple[int, int, int]:
        """(queries, keys, largest head) of the first kernel that takes such heads."""
        if head <= 64:
            return 64, 64, 64
        if self._capability >= (8, 0):
            if is_half and head <= 96 and self._capability in ((8, 6), (8, 9)):
                return 128, 64, 96
            if is_half and head <= 128:
                return (128, 128, 128) if self._capability in ((8, 0), (9, 0), (10, 0)) else (64, 64, 128)
            return 128, 64, 128 if head <= 128 else 65536
        return (128, 64, 128 if head <= 128 else 65536) if is_half else (64, 64, 128 if head <= 128 else 65536)


class _EmbeddingBackward:
    """`embedding_dense_backward_cuda` in aten/src/ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu: many
    indices are sorted with the rows that they belong to, and up to ten gradients of an index at a time are summed in
    fp32. Those sums are added up in a second pass or, where there are few weights, into the result at once."""

    ROWS_SUMMED_AT_ONCE = 10
    WARP, LARGEST_BLOCK, BLOCKS_PER_MULTIPROCESSOR = 32, 1024, 4

    def __init__(self, num_multiprocessors: int) -> None:
        self._num_multiprocessors = num_multiprocessors

    def __call__(
        self,
        grad: torch.Tensor,
        indices: torch.Tensor,
        num_weights: int,
        padding_idx: int,
        scale_grad_by_freq: bool,
    ) -> int:
        numel, width = indices.numel(), grad.shape[-1]
        if numel <= EMBEDDING_SORTS_ABOVE and not scale_grad_by_freq:
            return _contiguous_copy(grad)
        # Indices and rows, sorted and not, and the rows' numbers; cub sorts to and fro. The result is not there yet.
        sorting = 5 * numel * indices.element_size() - num_weights * width * grad.element_size()
        segments = min(numel, num_weights)
        parts = numel // self.ROWS_SUMMED_AT_ONCE + segments
        is_in_place = self._sums_in_place(segments, parts, width)
        arrays = 3 * numel + 2 * segments + parts * (2 if is_in_place else 1)
        sums = parts
        if is_in_place:
            sums = num_weights if grad.element_size() < FLOAT_BYTES else 0
        return max(sorting, arrays * indices.element_size() + sums * width * FLOAT_BYTES) + _contiguous_copy(grad)

    def _sums_in_place(self, segments: int, parts: int, width: int) -> bool:
        threads = _up(width, self.WARP)
        blocks = math.ceil(segments * threads / min(threads, self.LARGEST_BLOCK))
        return blocks < self.BLOCKS_PER_MULTIPROCESSOR * self._num_multiprocessors and parts > 4 * blocks


def _contiguous_copy(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_contiguous() else tensor.numel() * tensor.element_size()


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
