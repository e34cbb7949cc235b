"""GPT-2 (transformers' GPT2LMHeadModel, from its config, random weights)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bench.spec import ChainInfo, WorkloadSpec
from models.text import check_positions, draw_lengths, draw_tokens

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

LIBRARY = "transformers"
SHAPE = ("sequence_length",)
KINDS = {"attention": ("attn",), "mlp": ("mlp",), "norm": ("ln_1", "ln_2")}


def build(
    *,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    positions: int = 1024,
    dropout: float = 0.0,
    attention: str = "sdpa",
) -> GPT2LMHeadModel:
    """A GPT2LMHeadModel in training mode on the current default device; `attention` as in transformers (`sdpa`,
    `eager`)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=layers,
        n_embd=width,
        n_head=heads,
        vocab_size=vocabulary,
        n_positions=positions,
        resid_pdrop=dropout,
        attn_pdrop=dropout,
        embd_pdrop=dropout,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
        loss_type="ForCausalLM",
    )
    return GPT2LMHeadModel(config).train()


def batch(model: GPT2LMHeadModel, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`input_ids` of shape (micro_batch, sequence_length), int64; see `models.text` for `data` and `lengths`."""
    (length,) = draw_lengths(workload, generator, sequence_length=256)
    check_positions(length, model.config.n_positions)
    return {"input_ids": draw_tokens(workload, generator, length=length, vocabulary=model.config.vocab_size)}


def loss(model: GPT2LMHeadModel, batch: dict[str, Any]) -> torch.Tensor:
    """Mean next-token cross-entropy."""
    result: torch.Tensor = model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss
    return result


def chains(model: GPT2LMHeadModel) -> tuple[ChainInfo, ...]:
    units = tuple(f"transformer.h.{index}" for index in range(len(model.transformer.h)))
    return (ChainInfo(name="transformer.h", units=units, kinds=KINDS),)
