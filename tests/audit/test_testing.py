"""The public names, as the tests of somebody's training script use them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench import audit_replay
from bench.audit.testing import assert_valid_replay


def normed() -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.GELU()) for _ in range(2)))


def loss(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(16, 8)).square().mean()
    return out


def test_a_valid_placement_passes_and_hands_back_its_verdict() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5)), nn.Linear(32, 8))
    verdict = assert_valid_replay(model, loss, placement="0", to_the_bit=True)
    assert (verdict.outcome, verdict.placement) == ("valid", "0")


def test_an_invalid_one_fails_in_the_words_of_the_verdict() -> None:
    with pytest.raises(AssertionError, match=r"^0: invalid \(state\): 0: buffer 0\.1\.\w+ .*; @restore"):
        assert_valid_replay(normed(), loss, placement="0")


def test_the_cure_that_it_names_passes() -> None:
    assert_valid_replay(normed(), loss, placement="0@restore+1@restore", to_the_bit=True)


def test_a_step_with_its_optimizer_is_audited_whole() -> None:
    model = normed()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> float:
        made = loss(model)
        made.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(made)

    verdict = audit_replay(model, step, placement="0", optimizer=optimizer)
    assert (verdict.outcome, verdict.kind) == ("invalid", "state")
    assert not optimizer.state, "everything is as it was before"
