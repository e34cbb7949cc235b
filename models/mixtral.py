"""Mixtral (transformers' MixtralForCausalLM, from its config, random weights): a mixture of experts in every block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bench.spec import ChainInfo, SpecError, WorkloadSpec
from models.text import check_positions, draw_lengths, draw_tokens

if TYPE_CHECKING:
    from transformers import MixtralForCausalLM

LIBRARY = "transformers"
SHAPE = ("sequence_length",)
KINDS = {
    "attention": ("self_attn",),
    "mlp": ("mlp",),
    "experts": ("mlp.experts",),
    "norm": ("input_layernorm", "post_attention_layernorm"),
}
"""`mlp` is the whole mixture with its router; `experts` is what comes after routing."""
ROUTED = ("grouped_mm", "eager")
"""How experts run. transformers has `batched_mm` too, which copies an expert's weights for every token and sums their
gradients in an order that differs from run to run."""


def build(
    *,
    layers: int = 6,
    width: int = 384,
    feed_forward: int = 768,
    heads: int = 6,
    key_value_heads: int = 2,
    experts: int = 8,
    experts_per_token: int = 2,
    vocabulary: int = 8192,
    positions: int = 2048,
    dropout: float = 0.0,
    attention: str = "sdpa",
    routed: str = "grouped_mm",
    router_loss: float = 0.02,
) -> MixtralForCausalLM:
    """A MixtralForCausalLM in training mode on the current default device.

    Args:
        heads, key_value_heads: query heads, and the heads of keys and values that they share (grouped-query attention).
        experts, experts_per_token: feed-forward networks in a block, and how many of them each token goes through.
        dropout: of attention weights; Mixtral has no other.
        attention: as in transformers (`sdpa`, `eager`).
        routed: how the experts run. `grouped_mm` sorts tokens by expert and multiplies in groups: shapes do not depend
            on the routing. `eager` loops over the experts that were hit, each with as many rows as were routed to it.
        router_loss: weight of the load-balancing loss (Fedus et al. 2021, arXiv 2101.03961) that is added to the
            cross-entropy.

    Raises:
        SpecError: `routed` is not one of ROUTED.
    """
    from transformers import MixtralConfig, MixtralForCausalLM

    if routed not in ROUTED:
        raise SpecError(f"model.settings.routed: {routed!r} is not one of {', '.join(ROUTED)}")
    config = MixtralConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=feed_forward,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        num_local_experts=experts,
        num_experts_per_tok=experts_per_token,
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        sliding_window=None,
        attention_dropout=dropout,
        output_router_logits=True,
        router_aux_loss_coef=router_loss,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
        experts_implementation=routed,
    )
    return MixtralForCausalLM(config).train()


def batch(model: MixtralForCausalLM, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`input_ids` of shape (micro_batch, sequence_length), int64; see `models.text` for `data` and `lengths`."""
    (length,) = draw_lengths(workload, generator, sequence_length=256)
    check_positions(length, model.config.max_position_embeddings)
    return {"input_ids": draw_tokens(workload, generator, length=length, vocabulary=model.config.vocab_size)}


def loss(model: MixtralForCausalLM, batch: dict[str, Any]) -> torch.Tensor:
    """Mean next-token cross-entropy, and the routers' load-balancing loss times its weight."""
    result: torch.Tensor = model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss
    return result


def chains(model: MixtralForCausalLM) -> tuple[ChainInfo, ...]:
    units = tuple(f"model.layers.{index}" for index in range(len(model.model.layers)))
    return (ChainInfo(name="model.layers", units=units, kinds=KINDS),)
