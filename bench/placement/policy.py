"""What a region keeps in spite of being replayed: selective checkpoint contexts made from a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

from bench.placement.types import Kept

OP_GROUPS: dict[str, frozenset[str]] = {
    "matmul": frozenset(
        {"mm", "addmm", "bmm", "baddbmm", "addbmm", "linear", "_scaled_mm", "_grouped_mm", "_addmm_activation"}
    ),
    "attention": frozenset(
        {
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
            "_flash_attention_forward",
            "_efficient_attention_forward",
        }
    ),
    "conv": frozenset({"convolution", "_convolution"}),
}
"""Group → aten ops in it, as they are dispatched below autograd."""


def aten_ops(name: str) -> frozenset[str]:
    """The aten ops that a policy's op name stands for."""
    return OP_GROUPS.get(name, frozenset({name}))


def known_ops() -> tuple[str, ...]:
    """Names that a policy can keep: groups, and torch's ops without their overloads."""
    names = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    return tuple(sorted({*OP_GROUPS, *(name.partition(".")[0] for space, _, name in names if space == "aten")}))


class PolicyContexts:
    """`context_fn` of torch.utils.checkpoint: keeps the chosen calls; a fresh count for every pass of the region."""

    def __init__(self, keeps: tuple[Kept, ...], on_kept: Callable[[], None]) -> None:
        self._chosen = {op: kept for kept in keeps for op in aten_ops(kept.op)}
        self._on_kept = on_kept

    def __call__(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}

        def policy(
            context: SelectiveCheckpointContext, op: torch._ops.OpOverload, *_: Any, **__: Any
        ) -> CheckpointPolicy:
            kept = self._chosen.get(op._schema.name.partition("::")[2])
            if kept is None:
                return CheckpointPolicy.PREFER_RECOMPUTE
            call = counts[context.is_recompute][kept.op]
            counts[context.is_recompute][kept.op] += 1
            if call not in kept.calls if kept.calls else call % kept.every:
                return CheckpointPolicy.PREFER_RECOMPUTE
            if not context.is_recompute:
                self._on_kept()
            return CheckpointPolicy.MUST_SAVE

        contexts: tuple[AbstractContextManager[None], AbstractContextManager[None]] = (
            create_selective_checkpoint_contexts(policy)
        )
        return contexts
