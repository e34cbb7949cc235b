"""Chains found in models that do not name theirs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.placement import generate_placements
from bench.placement.applying import apply
from bench.spec import ChainInfo
from bench.step import default_chains
from tests.tiny_models import GPT2, MODELS, T5


class Residual(nn.Module):
    """A basic block as in torchvision's ResNet."""

    def __init__(self, width: int, downsample: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)) if downsample else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


def stage(blocks: int) -> nn.Sequential:
    return nn.Sequential(Residual(4, downsample=True), *(Residual(4) for _ in range(blocks - 1)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.layer1, self.layer2 = stage(2), stage(3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.fc(self.layer2(self.layer1(self.conv1(x))).mean((2, 3)))
        return result


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(8))


def units(chain: ChainInfo) -> str:
    return f"{chain.units[0]}..{chain.units[-1].rpartition('.')[2]}"


def test_gpt2_is_what_its_family_says() -> None:
    (found,), (said,) = default_chains(GPT2.build()), GPT2.chains()
    assert found.name == "transformer.h"
    assert found.units == said.units
    assert dict(found.kinds) == dict(said.kinds)


def test_t5_has_a_chain_for_the_encoder_and_one_for_the_decoder() -> None:
    for found, said in zip(default_chains(T5.build()), T5.chains(), strict=True):
        assert (found.name, found.units, dict(found.kinds)) == (said.name, said.units, dict(said.kinds))


def test_a_resnet_has_a_chain_a_stage_and_kinds_that_all_its_blocks_have() -> None:
    first, second = default_chains(ResNet())
    assert (units(first), units(second)) == ("layer1.0..1", "layer2.0..2")
    assert dict(second.kinds) == {"conv2d": ("conv1", "conv2"), "norm": ("bn1", "bn2")}


def test_stages_in_a_container_are_chains_of_their_own() -> None:
    assert list(map(units, default_chains(nn.Sequential(stage(2), stage(3))))) == ["0.0..1", "1.0..2"]
    assert list(map(units, default_chains(nn.ModuleList([stage(2), stage(3)])))) == ["0.0..1", "1.0..2"]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_transformer_has_two_chains() -> None:
    encoder, decoder = default_chains(nn.Transformer(8, 2, 3, 4, 16))
    assert (units(encoder), units(decoder)) == ("encoder.layers.0..2", "decoder.layers.0..3")
    assert encoder.kinds["attention"] == ("self_attn",)
    assert decoder.kinds["attention"] == ("self_attn", "multihead_attn")
    assert decoder.kinds["norm"] == ("norm1", "norm2", "norm3")


def test_a_sequence_of_layers_is_a_chain_of_its_layers() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU()]
    (chain,) = default_chains(nn.Sequential(*layers))
    assert chain.units == ("0", "1", "2", "3")
    assert chain.kinds == {}


def test_a_sequence_of_equal_blocks_is_a_chain_of_blocks() -> None:
    (chain,) = default_chains(nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))))
    assert (units(chain), chain.kinds) == ("0..2", {"linear": ("0",)})


def test_nothing_inside_a_block_is_a_chain() -> None:
    (chain,) = default_chains(nn.ModuleDict({"blocks": nn.ModuleList(Experts() for _ in range(2))}))
    assert chain.units == ("blocks.0", "blocks.1")


def test_a_model_without_repetition_gives_its_direct_children() -> None:
    (chain,) = default_chains(nn.ModuleDict({"encoder": nn.Linear(2, 2), "decoder": nn.GRU(2, 2)}))
    assert chain.units == ("encoder", "decoder")


def test_a_single_layer_has_no_chain() -> None:
    assert default_chains(nn.Linear(2, 2)) == ()


@pytest.mark.parametrize("name", MODELS)
def test_generated_placements_can_be_applied(name: str) -> None:
    model = MODELS[name].build()
    loss = MODELS[name].loss(model)
    options = {"each": True, "every": [2], "kinds": ["attention", "mlp", "norm"], "spans": [2]}
    for entry in generate_placements(options, default_chains(model)):
        with apply(model, entry.text, forward=loss) as applied:
            loss().backward()
        assert all(counts.replays == 1 for _, counts in applied.counts), entry.text
