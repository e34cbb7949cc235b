"""T5 (transformers' T5ForConditionalGeneration, from its config, random weights)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from bench.spec import ChainInfo, WorkloadSpec
from models.text import draw_lengths, draw_tokens

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration

LIBRARY = "transformers"
SHAPE = ("sequence_length", "target_length")
ENCODER_KINDS = {
    "attention": ("layer.0.SelfAttention",),
    "mlp": ("layer.1.DenseReluDense",),
    "norm": ("layer.0.layer_norm", "layer.1.layer_norm"),
}
DECODER_KINDS = {
    "attention": ("layer.0.SelfAttention", "layer.1.EncDecAttention"),
    "mlp": ("layer.2.DenseReluDense",),
    "norm": ("layer.0.layer_norm", "layer.1.layer_norm", "layer.2.layer_norm"),
}


def build(
    *,
    layers: int = 6,
    width: int = 512,
    feed_forward: int = 2048,
    heads: int = 8,
    vocabulary: int = 32128,
    dropout: float = 0.0,
    attention: str = "sdpa",
) -> T5ForConditionalGeneration:
    """A T5ForConditionalGeneration in training mode, `layers` blocks in encoder and decoder each."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        num_layers=layers,
        num_decoder_layers=layers,
        d_model=width,
        d_ff=feed_forward,
        d_kv=width // heads,
        num_heads=heads,
        vocab_size=vocabulary,
        dropout_rate=dropout,
        use_cache=False,
        decoder_start_token_id=0,
        attn_implementation=attention,
    )
    return T5ForConditionalGeneration(config).train()


def batch(model: T5ForConditionalGeneration, workload: WorkloadSpec, generator: torch.Generator) -> dict[str, Any]:
    """`input_ids` (micro_batch, sequence_length) and `labels` (micro_batch, target_length), int64, without the padding
    id 0; see `models.text` for `data` and `lengths`. Of a real text, the labels are what follows the input."""
    source, target = draw_lengths(workload, generator, sequence_length=128, target_length=128)
    draw = functools.partial(draw_tokens, workload, generator, vocabulary=model.config.vocab_size, lowest=1)
    if workload.data == "text":
        tokens = draw(length=source + target)
        return {"input_ids": tokens[:, :source].contiguous(), "labels": tokens[:, source:].contiguous()}
    return {"input_ids": draw(length=source), "labels": draw(length=target)}


def loss(model: T5ForConditionalGeneration, batch: dict[str, Any]) -> torch.Tensor:
    """Mean cross-entropy of the target tokens."""
    result: torch.Tensor = model(**batch).loss
    return result


def chains(model: T5ForConditionalGeneration) -> tuple[ChainInfo, ...]:
    return (
        _chain("encoder.block", len(model.encoder.block), ENCODER_KINDS),
        _chain("decoder.block", len(model.decoder.block), DECODER_KINDS),
    )


def _chain(name: str, length: int, kinds: Mapping[str, tuple[str, ...]]) -> ChainInfo:
    return ChainInfo(name=name, units=tuple(f"{name}.{index}" for index in range(length)), kinds=kinds)
