"""transformers' every_n_layers, as a placement."""

from __future__ import annotations

import pytest
from torch import nn

from bench.peers.peer import PeerRefusedError
from bench.peers.transformers import every_n_layers
from tests.peers.steps import footprint, placed_footprint, wrapped_log, zoo_step


@pytest.mark.parametrize(("model", "k"), [("gpt2-tiny", 1), ("gpt2-tiny", 3), ("llama-tiny", 2), ("swin-tiny", 2)])
def test_it_is_transformers_own_to_the_byte_and_op(model: str, k: int) -> None:
    def enable(built: nn.Module) -> None:
        built.activation_checkpointing_enable(every_n_layers=k)  # type: ignore[operator]

    placement = every_n_layers(zoo_step(model).facts, k)
    assert placed_footprint(model, placement) == footprint(wrapped_log(model, enable))


def test_on_t5_it_is_transformers_own_but_for_a_flag_that_takes_cross_attention_off_the_fused_kernel() -> None:
    """It sets `gradient_checkpointing` on attentions too, which then want a gradient of a bias of zeros."""

    def enable(built: nn.Module) -> None:
        built.activation_checkpointing_enable(every_n_layers=2)  # type: ignore[operator]
        for module in built.modules():
            if type(module).__name__ == "T5Attention":
                module.gradient_checkpointing = False

    placement = every_n_layers(zoo_step("t5-tiny").facts, 2)
    assert placed_footprint("t5-tiny", placement) == footprint(wrapped_log("t5-tiny", enable))


def test_layers_are_counted_through_encoder_and_decoder() -> None:
    """Three blocks each: the encoder's 0 and 2 and, as number 4, the decoder's 1."""
    assert every_n_layers(zoo_step("t5-tiny").facts, 2).text == "decoder.block.1+encoder.block.0+encoder.block.2"


def test_layers_in_layers_nest() -> None:
    placement = every_n_layers(zoo_step("swin-tiny").facts, 1)
    assert {placement.depth(region) for region in placement.regions} == {1, 2}


@pytest.mark.parametrize("model", ["unet-tiny", "resnet50-tiny"])
def test_a_model_without_such_layers_is_refused(model: str) -> None:
    with pytest.raises(PeerRefusedError, match="has no GradientCheckpointingLayer"):
        every_n_layers(zoo_step(model).facts, 2)
