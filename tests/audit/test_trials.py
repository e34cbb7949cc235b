"""Trials: flaky is told from invalid, and everything is put back between them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.audit import AuditOptions, audit_replay
from bench.audit.tolerance import outside
from bench.spec import SpecError
from tests.audit.parts import BATCH, WIDTH, Block, Counting, Scaled, Stack


def loss(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(BATCH, WIDTH))
    return out


class Router(Block):
    """Sends its input another way where it is replayed in 1 step of 20."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        in_backward = torch._C._current_graph_task_id() != -1
        return x.cos() if in_backward and self.step % 20 == 13 else x.sin()


def routed(model: Any) -> torch.Tensor:
    model.blocks[0].step += 1
    return loss(model)


def test_a_router_that_flips_in_1_step_of_20_is_flaky() -> None:
    verdict = audit_replay(Stack(Router(), Block()), routed, placement="blocks.0", options=AuditOptions(trials=10))
    assert (verdict.outcome, verdict.differing, verdict.trials) == ("flaky", 1, 10)
    assert "flaky (1 of 10 trials) (control)" in str(verdict)
    assert verdict.first_difference is not None
    assert verdict.first_difference.op == "sin"


def test_what_goes_wrong_each_time_is_invalid_and_needs_no_further_trials() -> None:
    verdict = audit_replay(Stack(Counting(), Block()), loss, placement="blocks.0", options=AuditOptions(trials=10))
    assert (verdict.outcome, verdict.differing, verdict.trials) == ("invalid", 3, 3)


def test_trials_go_on_where_the_plain_steps_ended() -> None:
    class Late(Scaled):
        """Wrong from its fifth step on, which only a third trial of two steps each comes to."""

        def twist(self, x: torch.Tensor) -> torch.Tensor:
            return x * (2.0 if torch._C._current_graph_task_id() != -1 and self.factor > 5 else 1.0) + x.sin()

    def step(model: Any) -> torch.Tensor:
        model.blocks[0].factor += 1.0
        return loss(model)

    def outcome(trials: int) -> str:
        return audit_replay(Stack(Late()), step, placement="blocks.0", options=AuditOptions(trials=trials)).outcome

    assert outcome(2) == "valid"
    assert outcome(3) == "flaky"


def test_a_plain_step_that_does_not_repeat_is_unsupported() -> None:
    calls = iter(range(10**6))

    class Drifting(Block):
        def twist(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(id(object()) % 7 + next(Drifting.numbers))

        numbers = (float(n) ** 2 for n in calls)

    verdict = audit_replay(Stack(Drifting(), Block()), loss, placement="blocks.1", options=AuditOptions(trials=1))
    assert verdict.outcome == "unsupported"
    assert "the plain step does not repeat" in verdict.notes[0]


def test_a_difference_within_a_few_times_the_repeats_is_tolerated_and_a_larger_one_is_not() -> None:
    from bench.audit.compare import GRADIENT_VALUE, Difference

    def off(error: float) -> Difference:
        return Difference(what=GRADIENT_VALUE, name="w", when="step 1", plain="", replayed="", error=error)

    assert outside([off(2e-3)], [off(1e-3)], 0.0) == ([], pytest.approx(4e-3))
    assert outside([off(5e-3)], [off(1e-3)], 0.0)[0] == [off(5e-3)]
    assert outside([off(1e-9)], [], 1e-7)[0] == [off(1e-9)]


def test_fewer_than_two_steps_are_no_audit() -> None:
    with pytest.raises(SpecError, match="at least 2"):
        AuditOptions(steps=1)
