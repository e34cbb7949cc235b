"""Other people's wrappers, audited as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

import models.gpt2
from bench.audit import AuditOptions, audit_replay
from bench.spec import SpecError
from tests.audit.blocks import BATCH, WIDTH, Block, Stack
from tests.audit.parts import normed

OPTIONS = AuditOptions(trials=1, confirm=1)


def loss(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(BATCH, WIDTH))
    return out


def test_torchs_wrapper_is_valid_and_its_names_are_matched() -> None:
    def wrap(model: nn.Module) -> None:
        apply_activation_checkpointing(model, checkpoint_wrapper, check_fn=lambda module: isinstance(module, Block))

    assert audit_replay(Stack(Block(nn.Dropout(0.5)), Block()), loss, replayed=wrap, options=OPTIONS).outcome == "valid"


def test_torchs_wrapper_around_a_batchnorm_moves_its_statistics_twice() -> None:
    def wrap(model: nn.Module) -> None:
        apply_activation_checkpointing(model, checkpoint_wrapper, check_fn=lambda m: isinstance(m, nn.Sequential))

    verdict = audit_replay(Stack(normed(), normed()), loss, replayed=wrap, options=OPTIONS)
    assert (verdict.outcome, verdict.kind) == ("invalid", "state")
    assert "blocks.1.1." in verdict.findings[0].where


deprecated = pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable.:FutureWarning")


def tiny_gpt2(dropout: float) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = models.gpt2.build(layers=2, width=32, heads=2, vocabulary=64, positions=16, dropout=dropout)
    tokens = torch.randint(0, 64, (2, 16))
    return model, lambda model: model(input_ids=tokens, labels=tokens).loss


@deprecated
@pytest.mark.parametrize("reentrant", [False, True])
def test_transformers_own_checkpointing_is_valid_with_dropout(reentrant: bool) -> None:
    model, step = tiny_gpt2(0.1)

    def enable(model: Any) -> None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})

    verdict = audit_replay(model, step, replayed=enable, options=OPTIONS)
    assert verdict.outcome == "valid", str(verdict)


@deprecated
def test_transformers_own_checkpointing_without_the_rng_state_is_not() -> None:
    model, step = tiny_gpt2(0.1)

    def enable(model: Any) -> None:
        model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})

    verdict = audit_replay(model, step, replayed=enable, options=OPTIONS)
    assert (verdict.outcome, verdict.kind) == ("invalid", "rng"), str(verdict)
    assert verdict.first_difference is not None
    assert verdict.first_difference.region == "transformer.h.1"


class LateStatistics(nn.Module):
    """fairscale's way with BatchNorm: the first pass, which runs without gradients, leaves the statistics alone, and
    the replay moves them. A forward without a backward then never does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = inner
        for module in inner.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.register_forward_pre_hook(self.pause)
                module.register_forward_hook(self.resume)

    @staticmethod
    def pause(module: Any, _args: Any) -> None:
        module.track_running_stats = torch.is_grad_enabled()

    @staticmethod
    def resume(module: Any, _args: Any, _output: Any) -> None:
        module.track_running_stats = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.utils.checkpoint.checkpoint(self._checkpoint_wrapped_module, x, use_reentrant=True)
        return out


@pytest.mark.parametrize("is_frozen", [False, True])
def test_fairscales_wrapper_is_wrong_for_a_batchnorm_in_a_forward_without_a_backward_alone(is_frozen: bool) -> None:
    fairscale = pytest.importorskip("fairscale.nn.checkpoint", reason="pip install --no-deps fairscale")

    def wrap(model: Any) -> None:
        model.blocks[0] = fairscale.checkpoint_wrapper(model.blocks[0])

    model = Stack(normed(), Block(nn.Dropout(0.5)))
    model.blocks[0].train(not is_frozen)
    verdict = audit_replay(model, loss, replayed=wrap)
    if is_frozen:
        assert (verdict.outcome, verdict.kind) == ("valid", ""), str(verdict)
    else:
        assert (verdict.outcome, verdict.kind) == ("invalid", "state"), str(verdict)
        assert "after a forward without a backward" in verdict.findings[0].text
        assert "after the steps" not in str(verdict)
    assert verdict.notes == ("the wrapper keeps blocks.0.1._track_running_stats_backup on the model",)


def test_fairscales_wrapper_keeps_dropout_masks() -> None:
    fairscale = pytest.importorskip("fairscale.nn.checkpoint", reason="pip install --no-deps fairscale")

    def wrap(model: Any) -> None:
        model.blocks[0] = fairscale.checkpoint_wrapper(model.blocks[0])

    verdict = audit_replay(Stack(Block(nn.Dropout(0.5)), Block()), loss, replayed=wrap)
    assert (verdict.outcome, verdict.trials) == ("valid", 10), str(verdict)


def test_what_a_wrapper_adds_up_on_a_module_is_no_thing_of_its_own() -> None:
    def wrap(model: Any) -> None:
        unit, forward = model.blocks[0], model.blocks[0].forward

        def counted(x: torch.Tensor) -> Any:
            unit.passes = getattr(unit, "passes", 0) + 1
            return forward(x)

        unit.forward = lambda x: torch.utils.checkpoint.checkpoint(counted, x, use_reentrant=False)

    verdict = audit_replay(Stack(Block(), Block()), loss, replayed=wrap, options=OPTIONS)
    assert (verdict.outcome, verdict.kind, verdict.findings[0].where) == ("invalid", "attribute", "blocks.0.passes")


def test_late_statistics_are_right_for_a_step_and_wrong_for_a_forward_without_a_backward() -> None:
    def wrap(model: Any) -> None:
        model.blocks[0] = LateStatistics(model.blocks[0])

    verdict = audit_replay(Stack(normed(), Block()), loss, replayed=wrap, options=OPTIONS)
    assert (verdict.outcome, verdict.kind) == ("invalid", "state")
    assert "after a forward without a backward" in verdict.findings[0].text
    assert "after the steps" not in str(verdict)


class Compiled(nn.Module):
    """Compiled under a memory budget, which torch reads when it compiles."""

    def __init__(self, model: nn.Module, budget: float) -> None:
        super().__init__()
        self._orig_mod = model
        self.__dict__["run"] = torch.compile(model, backend="aot_eager_decomp_partition")
        self.budget = budget

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch._functorch.config.patch(activation_memory_budget=self.budget):
            out: torch.Tensor = self.__dict__["run"](x)
        return out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("budget", "outcome"), [(1.0, "valid"), (0.5, "invalid"), (0.3, "invalid"), (0.0, "invalid")])
def test_a_compiled_memory_budget_with_dropout_is_invalid(budget: float, outcome: str) -> None:
    torch._dynamo.reset()

    width = 64

    def block() -> nn.Sequential:
        """As in a transformer: at half the memory its masks are drawn again."""
        wide = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1))
        return wide.append(nn.Linear(4 * width, width)).append(nn.Dropout(0.1))

    def model() -> nn.Sequential:
        return nn.Sequential(*(block() for _ in range(4)))

    def step(model: nn.Module) -> torch.Tensor:
        out: torch.Tensor = model(torch.randn(BATCH, width)).square().mean()
        return out

    verdict = audit_replay(
        model(), step, baseline=lambda m: Compiled(m, 1.0), replayed=lambda m: Compiled(m, budget), options=OPTIONS
    )
    assert verdict.outcome == outcome, str(verdict)


def test_a_wrapper_needs_a_step_that_is_given_the_model() -> None:
    model = Stack(Block())
    with pytest.raises(SpecError, match=r"write step\(model\), yours takes 0"):
        audit_replay(model, lambda: loss(model), replayed=lambda m: m)


def test_a_whole_step_is_given_the_copy_and_its_optimizer() -> None:
    model = Stack(Block(nn.Dropout(0.5)), Block())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
        made = loss(model)
        made.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return made.item()

    def wrap(model: nn.Module) -> None:
        apply_activation_checkpointing(model, checkpoint_wrapper, check_fn=lambda module: isinstance(module, Block))

    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert audit_replay(model, step, replayed=wrap, optimizer=optimizer, options=OPTIONS).outcome == "valid"
    assert audit_replay(model, step, placement="blocks.0", optimizer=optimizer, options=OPTIONS).outcome == "valid"
    assert not optimizer.state
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
