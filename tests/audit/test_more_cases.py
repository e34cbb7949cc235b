"""Further models of the same kinds: what is not put back between runs, not read, or copied wrongly hides or feigns a
fault."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from bench.audit import AuditOptions, audit_replay
from bench.audit.verdict import INVALID, VALID
from tests.audit import more_parts as parts
from tests.audit.blocks import BATCH, WIDTH, Block, Stack
from tests.audit.cases import REENTRANT, Case, set_to, tied
from tests.audit.checks import audited, checkpointed
from tests.audit.more_parts import Twisted


def twisted(twist: Callable[[Any, torch.Tensor], torch.Tensor], **made: Callable[[], Any]) -> Callable[[], nn.Module]:
    return lambda: Stack(Twisted(twist, **{name: make() for name, make in made.items()}), Block())


def first(change: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda model: change(model.blocks[0])


def triple(held: Any) -> None:
    held *= 3


def loss(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(BATCH, WIDTH))
    return out


ONE_TRIAL = AuditOptions(trials=1, confirm=1)
CASES = (
    Case(
        "a dropout rate changed",
        lambda: Stack(Block(nn.Dropout(0.5)), Block()),
        "attribute",
        between=first(lambda block: setattr(block.body[2], "p", 0.1)),
    ),
    Case("an array that counts", twisted(parts.counts_in_an_array, seen=parts.array), "attribute"),
    Case("a meter", twisted(parts.is_metered, meter=parts.Meter), "attribute"),
    Case(
        "an activation swapped",
        twisted(parts.activates, activation=nn.GELU),
        "attribute",
        between=first(lambda block: setattr(block, "activation", nn.ReLU())),
    ),
    Case(
        "a function swapped",
        twisted(parts.activates, activation=lambda: torch.sin),
        "attribute",
        between=first(lambda block: setattr(block, "activation", torch.cos)),
    ),
    Case(
        "a config object switched",
        twisted(parts.scales_by_config, config=parts.Config),
        "attribute",
        between=first(lambda block: setattr(block.config, "factor", 3.0)),
    ),
    Case(
        "a namespace switched",
        twisted(parts.scales_by_config, config=parts.namespace),
        "attribute",
        between=first(lambda block: setattr(block.config, "factor", 3.0)),
    ),
    Case(
        "a tensor in a dict that counts",
        twisted(parts.counts_in_a_dict, held=lambda: {"n": torch.zeros(())}),
        "attribute",
    ),
    Case("a gradient kept for the loop", twisted(parts.keeps_a_gradient), "attribute"),
    Case("a generator in a partial", twisted(parts.draws, draw=parts.drawing), "rng"),
    Case(
        "a closure's variable switched",
        lambda: Stack(parts.Closed(), Block()),
        "control",
        between=first(lambda block: block.switch(3.0)),
    ),
    Case(
        "the environment changed",
        twisted(parts.reads_the_environment),
        "control",
        between=lambda _m: os.environ.update({parts.NAME: "3"}),
    ),
    Case(
        "a context variable set",
        twisted(parts.reads_a_context_variable),
        "control",
        between=lambda _m: parts.VARIABLE.set(3.0),
    ),
    Case(
        "the default dtype changed",
        twisted(parts.makes_a_default),
        "control",
        between=lambda _m: torch.set_default_dtype(torch.float64),
        amp=False,
    ),
    Case(
        "a method replaced",
        lambda: Stack(parts.Sine(), Block()),
        "control",
        between=set_to(parts.Sine, "twist", parts.cosine),
    ),
    Case("the gradient mode, in a number", twisted(parts.brighter_with_gradients), "control", options=REENTRANT),
    Case("a loader's iterator", twisted(parts.takes_from_a_loader, numbers=parts.loaded), "external"),
    Case(
        "a queue",
        twisted(lambda block, x: x * block.numbers.get(), numbers=parts.filled_queue),
        "external",
    ),
    Case(
        "an array written",
        twisted(parts.reads_an_array, scale=parts.array),
        "mutation",
        between=first(lambda block: triple(block.scale)),
    ),
    Case(
        "a weight put elsewhere",
        lambda: Stack(Block(), Block()),
        "mutation",
        between=first(lambda block: setattr(block.body[0].weight, "data", block.body[0].weight.data * 2)),
    ),
    Case(
        "a boundary's data let go",
        lambda: Stack(Block(), parts.Halved()),
        "mutation",
        between=lambda m: setattr(m.blocks[1].given, "data", torch.zeros(1)),
    ),
    Case(
        "an object out of a reentrant region",
        lambda: parts.GivenRecord(parts.Recording(), parts.Recording()),
        "structure",
        options=REENTRANT,
    ),
    Case(
        "no gradient anywhere behind a reentrant region",
        lambda: Stack(Block().requires_grad_(False), Block(), trains_input=False),
        "gradient",
        ("blocks.1",),
        REENTRANT,
    ),
    Case("a hook that removes itself", lambda: parts.hooked(parts.removes_itself), "hook"),
    Case(
        "a hook added before backward",
        lambda: Stack(Block(), Block()),
        "hook",
        between=first(lambda block: block.body[0].register_forward_hook(lambda _m, _i, output: 2 * output)),
    ),
    Case("a hook that collects on the model", lambda: parts.hooked(parts.collects_on_the_model), "hook"),
    Case("a backward hook", lambda: parts.hooked(parts.counts_backwards)),
    Case("a hook on the unit", lambda: parts.hooked(parts.counts_the_unit)),
    Case("hooks on gradients", lambda: parts.hooked(parts.counts_gradients)),
    Case("weights stepped in backward", lambda: parts.hooked(parts.steps_in_backward)),
    Case("a pool of threads", twisted(parts.asks_a_pool, pool=lambda: ThreadPoolExecutor(1))),
    Case("a lock and a library as attributes", lambda: Stack(parts.Locked(), Block())),
)
BY_HAND_ALONE = (
    Case(
        "a dict argument that counts",
        lambda: parts.Given(dict, parts.CountsInArgument(), parts.CountsInArgument()),
        "mutation",
    ),
    Case(
        "a dict argument that shares",
        lambda: parts.Given(dict, parts.SharesThroughArgument(), parts.SharesThroughArgument()),
        "mutation",
    ),
)
REFUSED = ("no gradient anywhere behind a reentrant region", "an object out of a reentrant region")
"""A placement of ours will not do it."""


@pytest.fixture(autouse=True)
def _put_back() -> Any:
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    parts.Sine.twist = parts.SINE
    parts.VARIABLE.set(1.0)
    os.environ.pop(parts.NAME, None)


def expected(case: Case) -> tuple[str, str]:
    return (INVALID, case.kind) if case.kind else (VALID, "")


@pytest.mark.parametrize("case", CASES + BY_HAND_ALONE, ids=lambda case: case.name)
def test_a_checkpoint_put_on_by_hand_is_valid_or_invalid_of_its_kind(case: Case) -> None:
    verdict = audited(case, by_hand=True)
    assert (verdict.outcome, verdict.kind) == expected(case), str(verdict)


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in REFUSED], ids=lambda case: case.name)
def test_a_placement_is_valid_or_invalid_of_its_kind(case: Case) -> None:
    verdict = audited(case, by_hand=False)
    assert (verdict.outcome, verdict.kind) == expected(case), str(verdict)


@pytest.mark.parametrize("case", BY_HAND_ALONE, ids=lambda case: case.name)
def test_a_region_of_a_placement_fills_the_callers_own_containers_once(case: Case) -> None:
    verdict = audited(case, by_hand=False)
    assert verdict.outcome == VALID, str(verdict)


def test_an_audit_leaves_settings_environment_and_methods_as_they_were() -> None:
    named = {case.name: case for case in CASES}
    for name in ("the environment changed", "a context variable set", "the default dtype changed", "a method replaced"):
        audited(named[name], by_hand=True)
    assert (parts.NAME in os.environ, parts.VARIABLE.get()) == (False, 1.0)
    assert torch.get_default_dtype() == torch.float32
    assert parts.Sine.twist is parts.SINE


def test_a_hook_of_every_module_that_a_cut_off_step_leaves_behind_is_taken_off() -> None:
    table = torch.nn.modules.module._global_forward_hooks
    before = dict(table)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        handle = torch.nn.modules.module.register_module_forward_hook(lambda _m, _i, _o: None)
        model(torch.randn(BATCH, WIDTH)).backward()  # the forward without a backward ends here
        handle.remove()
        optimizer.step()

    model = Stack(Block(), Block())
    audit_replay(model, step, placement="blocks.0", optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    assert table == before


def test_a_plain_step_far_from_repeating_hides_no_replay_that_takes_another_value() -> None:
    clock = (1.0 + 0.001 * number for number in itertools.count())  # nobody can put it back
    stack = Stack(Twisted(lambda _block, x: x * next(clock)), Block())
    verdict = audit_replay(stack, loss, placement="blocks.0", options=ONE_TRIAL)
    assert (verdict.outcome, verdict.kind) == (INVALID, "external"), str(verdict)


def test_weights_stepped_in_backward_twice_are_not_taken_for_rounding() -> None:
    model = tied()
    parts.steps_in_backward(model)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        (1e3 * model(torch.randn(BATCH, WIDTH))).backward()
        optimizer.step()

    verdict = audit_replay(
        model,
        step,
        replayed=checkpointed(Case("tied", tied, options=REENTRANT)),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        options=ONE_TRIAL,
    )
    assert (verdict.outcome, verdict.kind) == (INVALID, "mutation"), str(verdict)


@pytest.mark.parametrize(
    "name", ["an array that counts", "a meter", "a gradient kept for the loop", "a generator in a partial"]
)
def test_restore_puts_back_arrays_objects_and_what_partials_hold(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    verdict = audit_replay(case.build(), loss, placement="blocks.0@restore", options=ONE_TRIAL)
    assert verdict.outcome == VALID, str(verdict)


def test_restore_puts_back_what_a_hook_counts_in_its_closure() -> None:
    calls = 0

    def count(_module: Any, _inputs: Any, _output: Any) -> None:
        nonlocal calls
        calls += 1

    stack = Stack(Block(), Block())
    stack.blocks[0].body[0].register_forward_hook(count)
    assert audit_replay(stack, loss, placement="blocks.0", options=ONE_TRIAL).kind == "hook"
    assert audit_replay(stack, loss, placement="blocks.0@restore", options=ONE_TRIAL).outcome == VALID
