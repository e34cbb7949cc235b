"""Megatron-LM's recomputation, as placements."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.peers import megatron
from bench.peers.peer import PeerRefusedError
from bench.placement.policy import OP_GROUPS
from bench.placement.tool_ops import PROJECTION_OPS
from bench.spec import ChainInfo
from bench.trace.log import NOWHERE, REPLAY
from tests.peers.steps import zoo_step


def replayed(model: str) -> Counter[str]:
    """Names of the ops that run again under core attention."""
    step = zoo_step(model)
    _, log = step.forecaster.by_fake_step(megatron.core_attention(step.facts))
    return Counter(op.name for op in log.ops if op.region_pass != NOWHERE and log.passes[op.region_pass].kind == REPLAY)


def test_of_gpt2_nothing_but_the_core_is_replayed() -> None:
    assert replayed("gpt2-tiny") == {"_scaled_dot_product_flash_attention_for_cpu": 4}


@pytest.mark.parametrize("model", ["llama-tiny", "t5-tiny", "vit-tiny", "swin-tiny", "mixtral-tiny", "unet-tiny"])
def test_no_projection_is_replayed(model: str) -> None:
    found = replayed(model)
    assert not found.keys() & PROJECTION_OPS
    assert found.keys() & (OP_GROUPS["attention"] | {"bmm"}), "the core is"


def test_projections_are_named_by_their_calls() -> None:
    text = megatron.core_attention(zoo_step("vit-tiny").facts).text
    assert text == "vit.layers.0..3.attention:each:keep.addmm/0/1/2"


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(PeerRefusedError, match="no unit has a submodule of the kind attention"):
        megatron.core_attention(zoo_step("resnet50-tiny").facts)


def test_uniform_chunks_begin_anew_in_each_chain_and_leave_nothing_plain() -> None:
    chains = (
        ChainInfo(name="e", units=("e.0", "e.1", "e.2")),
        ChainInfo(name="d", units=("d.0", "d.1")),
    )
    assert megatron.uniform(chains, 2).text == "d.0..1+e.0..1+e.2"
    assert megatron.block(chains).text == "d.0+e.0..1:each"
