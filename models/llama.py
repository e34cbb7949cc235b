"""Llama (transformers' LlamaForCausalLM, from its config, random weights), whole or with LoRA adapters from peft."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bench.spec import ChainInfo, SpecError, WorkloadSpec
from models.text import check_positions, draw_lengths, draw_tokens

if TYPE_CHECKING:
    from transformers import LlamaConfig

LIBRARY = ("transformers", "peft")
SHAPE = ("sequence_length",)
KINDS: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn",),
    "mlp": ("mlp",),
    "norm": ("input_layernorm", "post_attention_layernorm"),
}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers of a block that LoRA can adapt."""


def build(
    *,
    layers: int = 8,
    width: int = 512,
    feed_forward: int = 1408,
    heads: int = 8,
    key_value_heads: int = 4,
    vocabulary: int = 8192,
    positions: int = 2048,
    tied: bool = False,
    dropout: float = 0.0,
    attention: str = "sdpa",
    lora_rank: int = 0,
    lora_alpha: int = 16,
    lora_targets: str = "q_proj,v_proj",
    lora_dropout: float = 0.0,
) -> nn.Module:
    """A LlamaForCausalLM in training mode on the current default device.

    Args:
        heads, key_value_heads: query heads, and the heads of keys and values that they share (grouped-query attention).
        tied: the output projection shares the embedding's weights, as in Llama 3.2.
        dropout: of attention weights; Llama has no other.
        attention: as in transformers (`sdpa`, `eager`).
        lora_rank: 0 trains all weights. Above 0 every weight is frozen, and low-rank adapters of this rank are trained
            on the layers named in `lora_targets` (Hu et al. 2021, arXiv 2106.09685).
        lora_targets: names of PROJECTIONS with commas between, or `all`.
        lora_dropout: of the adapters' inputs.

    Raises:
        SpecError: a LoRA setting is out of range, or names a layer that Llama does not have.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    if lora_rank < 0:
        raise SpecError(f"model.settings.lora_rank: 0 for none, or a rank above 0, got {lora_rank}")
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=feed_forward,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        tie_word_embeddings=tied,
        attention_dropout=dropout,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
    )
    model = LlamaForCausalLM(config).train()
    if lora_rank:
        _add_lora(model, rank=lora_rank, alpha=lora_alpha, targets=_targets(lora_targets), dropout=lora_dropout)
    return model


def batch(model: nn.Module, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`input_ids` of shape (micro_batch, sequence_length), int64; see `models.text` for `data` and `lengths`."""
    config: LlamaConfig = model.config
    (length,) = draw_lengths(workload, generator, sequence_length=256)
    check_positions(length, config.max_position_embeddings)
    return {"input_ids": draw_tokens(workload, generator, length=length, vocabulary=config.vocab_size)}


def loss(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    """Mean next-token cross-entropy."""
    result: torch.Tensor = model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss
    return result


def chains(model: nn.Module) -> tuple[ChainInfo, ...]:
    """The blocks. LoRA leaves their names as they are, since adapters are put inside the plain model."""
    units = tuple(f"model.layers.{index}" for index in range(len(model.get_submodule("model.layers"))))  # type: ignore[arg-type]
    return (ChainInfo(name="model.layers", units=units, kinds=KINDS),)


def _targets(names: str) -> list[str]:
    targets = list(PROJECTIONS) if names == "all" else [name.strip() for name in names.split(",")]
    for name in targets:
        if name not in PROJECTIONS:
            known = ", ".join(PROJECTIONS)
            raise SpecError(
                f"model.settings.lora_targets: Llama has no layer {name!r} to adapt; there are {known}, or all"
            )
    return targets


def _add_lora(model: nn.Module, *, rank: int, alpha: int, targets: list[str], dropout: float) -> None:
    """Adapters inside `model`; every weight that is not an adapter's is frozen.

    Both factors are random, where peft's default zeroes the second: with zeros the first one's gradient is zero in the
    first step, and a replay that lost it could not be told from one that did not. peft makes them on the meta device
    and they are filled in here: adapters that are anywhere else it converts in place, which fails on fake tensors.
    """
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, lora_dropout=dropout, init_lora_weights=False)
    with torch.device("meta"):
        inject_adapter_in_model(config, model)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.device.type == "meta":
                factor = nn.Parameter(torch.empty(parameter.shape))
                nn.init.kaiming_uniform_(factor, a=math.sqrt(5))
                setattr(module, name, factor)
