"""What other tools can say of a placement: held against what `bench.peers` says that they place."""

from __future__ import annotations

import re

import pytest

from bench.decide.settings import FORMATS, tool_settings
from bench.peers import megatron, torchtitan
from bench.placement import Kept, Options, Placement, Region
from bench.placement.tool_ops import HALVED_OPS
from bench.spec import ChainInfo, SpecError

KINDS = {"attention": ("attn",), "mlp": ("mlp",)}
DECODER = (ChainInfo(name="decoder", units=tuple(f"h.{i}" for i in range(12)), kinds=KINDS),)
TWO = (
    ChainInfo(name="encoder", units=tuple(f"encoder.{i}" for i in range(4)), kinds=KINDS),
    ChainInfo(name="decoder", units=tuple(f"decoder.{i}" for i in range(6)), kinds=KINDS),
)


def lines(placement: Placement | str, format: str, chains: tuple[ChainInfo, ...] = DECODER) -> str:
    return "\n".join(tool_settings(str(placement), chains, format).lines)


def reason(placement: Placement | str, format: str) -> str:
    said = tool_settings(str(placement), DECODER, format)
    assert said.lines == ()
    return said.reason


@pytest.mark.parametrize("chains", [DECODER, TWO])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_every_kth_layer_is_said_to_transformers(chains: tuple[ChainInfo, ...], k: int) -> None:
    units = [unit for chain in chains for unit in chain.units]
    placement = Placement(tuple(Region(units=(unit,)) for unit in units[::k]))  # as bench.peers.transformers places it
    assert f'"every_n_layers": {k},' in lines(placement, "transformers", chains)


@pytest.mark.parametrize("chains", [DECODER, TWO])
def test_all_blocks_are_said_to_torchtitan(chains: tuple[ChainInfo, ...]) -> None:
    assert "FullAC()" in lines(torchtitan.full(chains), "torchtitan", chains)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_every_kth_block_is_said_to_torchtitan(k: int) -> None:
    assert f'selective_ac_option "{k}"' in lines(torchtitan.layers(DECODER, k), "torchtitan")


def test_its_own_list_of_ops_is_said_to_torchtitan() -> None:
    keeps = tuple(Kept(op=op, every=2 if op in HALVED_OPS else 1) for op in ("addmm", "bmm", "mm"))
    placement = Placement(
        tuple(Region(units=(u,), keeps=keeps, options=Options(early_stop=False)) for u in DECODER[0].units)
    )
    assert "SelectiveAC()" in lines(placement, "torchtitan")


@pytest.mark.parametrize("chains", [DECODER, TWO])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_runs_of_equal_length_are_said_to_megatron(chains: tuple[ChainInfo, ...], layers: int) -> None:
    said = lines(megatron.uniform(chains, layers), "megatron", chains)
    assert said.endswith(f"--recompute-method uniform --recompute-num-layers {layers}")


def test_the_first_layers_are_said_to_megatron() -> None:
    said = lines(megatron.block(DECODER), "megatron")
    assert said.endswith("--recompute-method block --recompute-num-layers 6")


def test_the_core_of_attention_is_said_to_megatron() -> None:
    keeps = (Kept(op="addmm", calls=(0,)),)
    placement = Placement(tuple(Region(units=(f"{unit}.attn",), keeps=keeps) for unit in DECODER[0].units))
    assert "core_attn" in lines(placement, "megatron")


@pytest.mark.parametrize("format", FORMATS)
def test_none_is_said_everywhere(format: str) -> None:
    assert lines("none", format)


@pytest.mark.parametrize(
    ("format", "placement", "why"),
    [
        ("transformers", "h.0..11:each:keep.matmul", "no policy"),
        ("transformers", "h.0..5+h.6..11", "no spans"),
        ("transformers", "h.0..10:each", "every k-th layer from the first on, and these are others"),
        ("transformers", "h.0..11.mlp:each", r"h\.0\.mlp is none"),
        ("transformers", "h.0..11:each@no-early-stop", "no-early-stop is none of them"),
        ("transformers", "h.0..11:each@restore", "cannot put back state"),
        ("torchtitan", "h.0..11:each", "measure the same placement with @no-early-stop"),
        ("torchtitan", "h.0..11:each:keep.attention@no-early-stop", "its own list of ops"),
        ("torchtitan", "h.0..5+h.6..11", "no spans"),
        ("megatron", "h.0..10:every.2", "runs of equal length"),
        ("megatron", "h.0..11.mlp:each", "no other part of a layer"),
        ("megatron", "h.0..11:each@reentrant", "no checkpoint options"),
        ("megatron", "h.0..11:each@no-rng", "no @no-rng"),
        ("megatron", "h.0..11:each:keep.matmul", "around the core of attention"),
    ],
)
def test_where_it_cannot_be_said_it_says_why(format: str, placement: str, why: str) -> None:
    assert re.search(why, reason(placement, format))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SpecError, match="none of transformers, torchtitan, megatron"):
        tool_settings("none", DECODER, "deepspeed")
