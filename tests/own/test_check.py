"""`check`: effect, peak and validity of a placement on a person's own model and step, in one call."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

from bench import Placement, PlacementError, check
from bench.placement import Origin
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.fingerprint import fingerprint_of
from bench.spec import SpecError

Step = Callable[[], torch.Tensor]


class Block(nn.Module):
    def __init__(self, noise: bool) -> None:
        super().__init__()
        self.wide, self.narrow, self.noise = nn.Linear(16, 64), nn.Linear(64, 16), noise
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.noise  # a replay that counts anew computes something else
        return x + self.narrow(torch.sin((1 + self.calls) * self.wide(x)))


class Net(nn.Module):
    def __init__(self, noise: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(noise) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def trained(noise: bool = False) -> tuple[Net, torch.optim.Optimizer, Step, torch.Tensor]:
    torch.manual_seed(0)
    model, batch = Net(noise), torch.randn(256, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        loss: torch.Tensor = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, optimizer, step, batch


def studied(model: Net, *, precision: str, micro_batch: int) -> Origin:
    return Origin(
        study="net-1a2b3c4d",
        key="1a2b3c4d5e6f7a8b",
        model="net",
        fingerprint=fingerprint_of(model),
        precision=precision,
        device="cpu",
        device_name="Toy CPU",
        versions={"torch": "2.11.0"},
        micro_batch=micro_batch,
    )


def test_a_good_placement_takes_effect_lowers_the_peak_and_is_valid() -> None:
    model, optimizer, step, batch = trained()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    done = check(model, "blocks.0..3:each", step, optimizer=optimizer, batch=batch)
    assert done.is_good
    assert [(effect.first_passes, effect.replays) for effect in done.effects] == [(2, 2)] * 4
    assert done.plain_peak_bytes is not None
    # At the peak three blocks more are whole in the plain step: of each the wide activation and its sine.
    assert done.plain_peak_bytes - done.peak_bytes >= 3 * 256 * 64 * 4
    assert done.persistent_bytes < done.peak_bytes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    text = str(done)
    assert "effect     4 of 4 regions replayed" in text
    assert "of what could move" in text
    assert "validity   valid" in text


def test_a_replay_that_computes_something_else_is_told() -> None:
    model, optimizer, step, batch = trained(noise=True)
    done = check(model, "blocks.0..3:each", step, optimizer=optimizer, batch=batch)
    assert not done.is_good
    assert done.verdict is not None
    assert done.verdict.outcome == "invalid"
    assert "validity   invalid" in str(done)


def test_a_placement_that_frees_nothing_is_told() -> None:
    model, optimizer, step, batch = trained()
    done = check(model, "blocks.0..3.wide:each", step, optimizer=optimizer, batch=batch, audit=False)
    assert not done.is_good
    assert "effect     none: after forward it retains" in str(done)
    assert "validity   not audited" in str(done)


def test_what_differs_from_the_study_is_noted() -> None:
    model, optimizer, step, batch = trained()
    origin = studied(model, precision="bf16-autocast", micro_batch=8)
    placement = dataclasses.replace(Placement.parse("blocks.0..3:each"), origin=origin)
    done = check(model, placement, step, optimizer=optimizer, batch=batch, audit=False)
    told = "\n".join(done.notes)
    assert len(done.notes) == 3
    assert "the micro-batch is 256, the study's was 8" in told
    assert "autocast is off, the study trained in bf16-autocast" in told
    assert "the study had 2.11.0" in told


def test_a_peak_that_is_not_the_studys_is_noted_once_and_nothing_is_warned_of() -> None:
    model, optimizer, step, batch = trained()
    placement = Placement.parse("blocks.0..3:each")
    peak = check(model, placement, step, optimizer=optimizer, batch=batch, audit=False).peak_bytes
    origin = studied(model, precision="fp32", micro_batch=256)
    for there, told in ((peak, []), (peak // 2, [f"(+{round(100 * (peak / (peak // 2) - 1))}%)"])):
        found = dataclasses.replace(placement, origin=dataclasses.replace(origin, peak_allocated_bytes=there))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = check(model, found, step, optimizer=optimizer, batch=batch)
        assert [note.rpartition(" ")[2] for note in done.notes if "the peak is" in note] == told
        assert sum("the study had 2.11.0" in note for note in done.notes) == 1


def test_what_cannot_be_checked_is_refused() -> None:
    model, optimizer, step, _ = trained()
    with pytest.raises(PlacementError, match=r"there are blocks\.0\.\.3"):
        check(model, "blocks.0..7:each", step, optimizer=optimizer)
    model.gradient_checkpointing = True
    with pytest.raises(UnsupportedPlacementError, match="turn it off"):
        check(model, "blocks.0..3:each", step, optimizer=optimizer)


def test_a_precision_that_is_none_of_ours_is_refused() -> None:
    model, optimizer, step, batch = trained()
    with pytest.raises(SpecError, match="precision: 'bf16' is not one of fp32"):
        check(model, "blocks.0..3:each", step, optimizer=optimizer, batch=batch, precision="bf16")
