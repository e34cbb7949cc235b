"""Operators and floating-point operations of a step, and which of them were spent on replay.

FLOPs follow torch.utils.flop_counter's formulas (2 a multiply-add), with ours for ops that it leaves out. A compute op
that nobody has a formula for is an error: work counted as 0 would look free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry, sdpa_backward_flop_count, sdpa_flop_count

Formula = Callable[..., int]
aten = torch.ops.aten

_MATMULS = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "addr",
    "dot",
    "vdot",
    "matmul",
    "linear",
    "bilinear",
)
_OTHERS = ("einsum", "trilinear", "fft", "conv", "convolution", "attention", "lstm", "gru", "rnn")
COMPUTE_WORDS = frozenset(_MATMULS + _OTHERS)
"""An op with one of these words in its name does work that grows faster than its bytes."""
ATTENTION_WORD = "attention"


class UncountedOpError(RuntimeError):
    """A compute op without a FLOP formula."""


def _attention_on_cpu(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_on_cpu_backward(grad_out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(grad_out.shape, query.shape, key.shape, value.shape))


def _matrix_vector(matrix: Any, *_: Any, **__: Any) -> int:
    return 2 * int(matrix.numel())


def _add_matrix_vector(_bias: Any, matrix: Any, *_: Any, **__: Any) -> int:
    return 2 * int(matrix.numel())


def _outer(_bias: Any, first: Any, second: Any, *_: Any, **__: Any) -> int:
    return 2 * int(first.numel()) * int(second.numel())


def _batched_outer_sum(_bias: Any, first: Any, second: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(first.shape) * int(second.shape[-1])


def _convolution_backward(grad_out: Any, image: Any, weight: Any, *rest: Any, **__: Any) -> int:
    """The forward's work for the gradient of the image, and again for that of the weight, whose groups torch's formula
    leaves out."""
    _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups, output_mask = rest
    forward = int(conv_flop_count(image.shape, weight.shape, grad_out.shape, transposed=transposed))
    return sum(map(bool, output_mask[:2])) * forward


def _grouped_matmul(first: Any, second: Any, offsets: Any = None, *_: Any, **__: Any) -> int:
    """(rows, k) × (groups, k, n): every row meets one group. With both of rank 2, offsets cut the inner dimension."""
    if first.dim() == 2 and second.dim() == 2:
        return 2 * int(first.shape[0]) * int(first.shape[1]) * int(second.shape[1])
    return 2 * math.prod(first.shape) * int(second.shape[-1])


_BY_NAME: dict[str, Formula] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention_on_cpu,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_on_cpu_backward,
    "mv": _matrix_vector,
    "dot": _matrix_vector,
    "vdot": _matrix_vector,
    "addmv": _add_matrix_vector,
    "addr": _outer,
    "addbmm": _batched_outer_sum,
    "convolution_backward": _convolution_backward,
    "_grouped_mm": _grouped_matmul,
}
FORMULAS = {getattr(aten, name): formula for name, formula in _BY_NAME.items() if hasattr(aten, name)}


class OpCounter(TorchDispatchMode):
    """Counts every operator dispatched while it is entered. Holds no tensor."""

    def __init__(self, in_replay: Callable[[], bool] = bool) -> None:
        """`in_replay` says of each op, as it is dispatched, whether it belongs to a replay; by default none does."""
        super().__init__()
        self._in_replay = in_replay
        self.ops = self.replay_ops = 0
        self.flops = self.replay_flops = 0
        self.attention_ops: list[str] = []
        """Attention forward ops in order of first use."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        flops = count_flops(func, args, kwargs, result)
        self.ops += 1
        self.flops += flops
        if self._in_replay():
            self.replay_ops += 1
            self.replay_flops += flops
        name = func._schema.name.partition("::")[2]
        if ATTENTION_WORD in name and "backward" not in name and name not in self.attention_ops:
            self.attention_ops.append(name)
        return result


def count_flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Raises UncountedOpError for a compute op that no formula is known for."""
    packet = func._overloadpacket
    if packet in FORMULAS:
        return FORMULAS[packet](*args, **kwargs)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    name = func._schema.name.partition("::")[2]
    if COMPUTE_WORDS & set(name.split("_")):
        raise UncountedOpError(
            f"{func._schema.name} does compute but has no FLOP formula; add one to bench.measure.ops.FORMULAS"
        )
    return 0
