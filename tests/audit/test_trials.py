"""Trials: flaky is told from invalid, and everything is put back between them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.audit import AuditOptions, PlainSide, audit_replay
from bench.audit.names import Names
from bench.audit.subject import Subject
from bench.audit.tolerance import outside
from bench.spec import SpecError
from tests.audit.blocks import BATCH, WIDTH, Block, Stack
from tests.audit.feeds import Iterating
from tests.audit.parts import Counting, Scaled


def loss(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(BATCH, WIDTH))
    return out


class Router(Block):
    """Sends its input another way where it is replayed in 1 step of 20."""

    def __init__(self, flips_at: int) -> None:
        super().__init__()
        self.step, self.flips_at = 0, flips_at

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        in_backward = torch._C._current_graph_task_id() != -1
        return x.cos() if in_backward and self.step % 20 == self.flips_at % 20 else x.sin()


def routed(model: Any) -> torch.Tensor:
    model.blocks[0].step += 1
    return loss(model)


@pytest.mark.parametrize("flips_at", range(1, 21))
def test_a_router_that_flips_in_1_step_of_20_is_flaky_whichever_step_it_is(flips_at: int) -> None:
    verdict = audit_replay(Stack(Router(flips_at), Block()), routed, placement="blocks.0")
    # Where it is among the first two steps, they are run once more under another seed.
    differing, trials = (2, 11) if flips_at <= 2 else (1, 10)
    assert (verdict.outcome, verdict.differing, verdict.trials) == ("flaky", differing, trials)
    assert f"flaky ({differing} of {trials} trials) (control)" in str(verdict)
    assert verdict.first_difference is not None
    assert verdict.first_difference.op == "sin"


def test_a_router_that_never_flips_is_valid_after_as_many_trials() -> None:
    class Steady(Router):
        def twist(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    verdict = audit_replay(Stack(Steady(1), Block()), routed, placement="blocks.0")
    assert (verdict.outcome, verdict.differing, verdict.trials) == ("valid", 0, 10)


def test_a_later_trial_is_the_same_however_often_and_in_whatever_order_it_is_asked_for() -> None:
    model = Stack(Block(nn.Dropout(0.5)), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        made = loss(model)
        made.backward()
        optimizer.step()
        optimizer.zero_grad()
        return made.detach()

    subject = Subject(model=model, optimizers=(optimizer,), run=step, forward=lambda: loss(model), names=Names(model))
    side = PlainSide(subject, AuditOptions())
    seen: dict[int, list[float]] = {}
    for number in (1, 2, 5, 9, 1, 2, 3, 5, 9):
        trial = side.later(number)
        assert trial is not None
        losses = [float(value) for value in trial.outcome.losses if value is not None]
        assert len(losses) == 2
        assert seen.setdefault(number, losses) == losses
    assert len({tuple(losses) for losses in seen.values()}) == 5


def test_data_that_comes_to_an_end_ends_the_trials_and_the_verdict_says_so() -> None:
    model = Stack(Iterating(iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), Block())
    verdict = audit_replay(model, loss, placement="blocks.1")
    assert (verdict.outcome, verdict.trials) == ("valid", 2)
    assert verdict.notes == ("no trials after step 4, since the plain step raises there",)


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


def test_a_model_that_hooks_itself_at_its_first_forward_hooks_itself_once_a_trial_and_is_as_it_was() -> None:
    """As transformers does to hand out what routers decide."""

    class Hooking(Block):
        is_hooked = False

        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.is_hooked:
                self.body[0].register_forward_hook(lambda module, args, output: self.seen.append(output))
                self.is_hooked = True
            self.seen.clear()
            out = super().forward(x)
            return out * (1.0 + 0.1 * len(self.seen))

    model = Stack(Hooking(), Block())
    verdict = audit_replay(model, loss, placement="blocks.1", options=AuditOptions(trials=3))
    assert (verdict.outcome, verdict.tolerance) == ("valid", 0.0), str(verdict)
    assert not model.blocks[0].is_hooked
    assert not model.blocks[0].body[0]._forward_hooks


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


def test_where_two_plain_runs_are_not_equal_to_the_bit_no_number_has_to_be() -> None:
    """Two losses may be equal by chance where gradients were not."""
    from bench.audit.compare import GRADIENT_VALUE, LOSS, Difference

    def off(what: str, error: float) -> Difference:
        return Difference(what=what, name="", when="in step 2", plain="", replayed="", error=error)

    repeats = [off(GRADIENT_VALUE, 1e-6)]
    assert outside([off(LOSS, 3e-7)], repeats, 1e-7) == ([], pytest.approx(4e-7))
    assert outside([off(LOSS, 5e-7)], repeats, 1e-7)[0] == [off(LOSS, 5e-7)]


def test_fewer_than_two_steps_are_no_audit() -> None:
    with pytest.raises(SpecError, match="at least 2"):
        AuditOptions(steps=1)
