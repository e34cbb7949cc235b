"""torchtitan's placements keep what torchtitan keeps."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import nn

from bench.peers import torchtitan
from bench.peers.peer import PeerRefusedError
from bench.placement.tool_ops import SAVED_OPS
from bench.spec import ChainInfo
from tests.peers.steps import footprint, placed_footprint, wrapped_log, zoo_step

CHAINS = (ChainInfo(name="h", units=("h.0", "h.1", "h.2")), ChainInfo(name="g", units=("g.0", "g.1")))
needs_torchtitan = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None or importlib.util.find_spec("tyro") is None,
    reason="pip install --no-deps torchtitan tyro docstring_parser typeguard shtab spmd_types",
)


def wrap_blocks(model: nn.Module, policy: str) -> None:
    """As its `apply`, which looks for the blocks in `model.layers` alone."""
    import torchtitan.distributed.activation_checkpoint as original

    build = getattr(original, policy).Config().build()
    for chain in zoo_step(NAME).facts.chains:
        for unit in chain.units:
            parent, _, name = unit.rpartition(".")
            blocks = model.get_submodule(parent)
            blocks.register_module(name, build._wrap_block(blocks.get_submodule(name), base_fqn=unit))


NAME = "llama-tiny"


@needs_torchtitan
def test_full_is_torchtitans_own_to_the_byte_and_op() -> None:
    placement = torchtitan.full(zoo_step(NAME).facts.chains)
    assert placed_footprint(NAME, placement) == footprint(wrapped_log(NAME, lambda model: wrap_blocks(model, "FullAC")))


@needs_torchtitan
def test_selective_is_torchtitans_own_to_the_byte_and_op() -> None:
    placement = torchtitan.selective(zoo_step(NAME).facts)
    assert placement.text == "model.layers.0..3:each:keep.mm%2@no-early-stop", "llama has no other op of the list"
    own = footprint(wrapped_log(NAME, lambda model: wrap_blocks(model, "SelectiveAC")))
    assert placed_footprint(NAME, placement) == own


@needs_torchtitan
def test_the_list_of_saved_ops_is_torchtitans() -> None:
    from torchtitan.distributed.activation_checkpoint import _get_default_save_ops

    eager = {
        op._schema.name.removeprefix("aten::")
        for op in _get_default_save_ops()
        if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten"
    }
    assert set(SAVED_OPS) == eager


def test_every_block_is_wrapped_without_early_stop() -> None:
    assert torchtitan.full(CHAINS).text == "g.0..1:each@no-early-stop+h.0..2:each@no-early-stop"


def test_layers_are_counted_from_one_over_all_chains() -> None:
    assert torchtitan.layers(CHAINS, 2).text == "g.0@no-early-stop+h.1@no-early-stop"


def test_an_output_that_the_model_changes_in_place_is_not_kept() -> None:
    """transformers' Mixtral divides the weights of the chosen experts, which `topk` hands out, in place."""
    assert "topk" in SAVED_OPS
    assert torchtitan.selective(zoo_step("mixtral-tiny").facts).text == "model.layers.0..3:each:keep.mm%2@no-early-stop"


def test_units_without_an_op_of_the_list_are_refused() -> None:
    step = zoo_step(NAME)
    norms = ChainInfo(name="norms", units=tuple(f"{unit}.input_layernorm" for unit in step.facts.chains[0].units))
    facts = type(step.facts)(
        model=step.facts.model,
        chains=(norms,),
        log=step.facts.log,
        op_ms=step.facts.op_ms,
        new_step=step.facts.new_step,
    )
    with pytest.raises(PeerRefusedError, match="no unit runs an op of its list"):
        torchtitan.selective(facts)
