"""The gate in a person's own process: what trains otherwise is turned away, and its restored twin is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.own import measure
from bench.spec import SpecError
from tests.families import moving
from tests.own.own_step import EACH, PROTOCOL


def test_batch_norm_is_turned_away_and_its_twin_is_measured(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = moving.build(moves="norm")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(64, 16)

    def step() -> torch.Tensor:
        loss: torch.Tensor = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def measured(**options: str) -> dict[str, tuple[str, str | None]]:
        study = measure(
            step,
            model,
            [EACH],
            optimizer=optimizer,
            results=tmp_path,
            protocol=PROTOCOL,
            plots=False,
            watch=lambda _: None,
            **options,  # type: ignore[arg-type]
        )
        return {trial.placement: (trial.outcome, trial.audit) for trial in study.frontier.trials}

    with pytest.raises(SpecError, match="audit: 'maybe' is not one of gate, off"):
        measured(audit="maybe")
    assert measured() == {
        "none": ("ok", None),
        EACH: ("invalid", "invalid"),
        f"{EACH}@restore": ("ok", "valid"),
    }
