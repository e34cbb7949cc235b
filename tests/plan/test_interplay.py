"""What two regions do together that neither does alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from bench.placement.types import Placement, Region
from bench.plan.interplay import interplays_of
from bench.plan.solve import Choice, Program, Taken
from bench.spec import ChainInfo
from tests.plan.planning import Subject, toy, zoo

ROWS, WIDTH = 64, 64
ACTIVATION = 4 * ROWS * WIDTH


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))  # saves what it hands out


class Between(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(2 * x)  # saves no input of its own


class Joins(nn.Module):
    def forward(self, x: torch.Tensor, skipped: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.sin(x + skipped))


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.between, self.joins = First(), Between(), Joins()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        return self.joins(self.between(first), first)


@pytest.fixture(scope="module")
def skip() -> Subject:
    chains = [ChainInfo(name=unit, units=(unit,)) for unit in ("first", "between", "joins")]
    return toy(Skip, ROWS, WIDTH, chains=chains)


def choice_of(program: Program, taken: tuple[Taken, ...]) -> Choice:
    return Choice(taken=taken, regions=program.regions(taken), line=program.line(taken), cost_ms=0.0, bound_ms=0.0)


def option_at(subject: Subject, unit: str) -> int:
    return next(n for n, o in enumerate(subject.options) if o.regions == (Region(units=(unit,)),))


def test_what_one_region_frees_another_may_hold_as_its_input(skip: Subject) -> None:
    program = Program(skip.trials.plain, skip.options, step_ms=1.0)
    taken: tuple[Taken, ...] = ((option_at(skip, "first"), ()), (option_at(skip, "joins"), ()))
    exact = skip.tried(*program.regions(taken)).line
    error = exact - program.line(taken)
    assert error.max() == ACTIVATION  # what `first` hands out, freed by one and held by the other
    found = interplays_of(choice_of(program, taken), int(error.argmax()), program, skip.trials)
    assert {member for interplay in found[:1] for member in interplay.members} == {(o, None) for o, _ in taken}
    program.add(found)
    assert program.line(taken).tolist() == exact.tolist()


def test_where_sums_are_right_there_is_no_interplay(skip: Subject) -> None:
    program = Program(skip.trials.plain, skip.options, step_ms=1.0)
    choice = choice_of(program, ((option_at(skip, "first"), ()),))
    assert interplays_of(choice, int(skip.trials.plain.argmax()), program, skip.trials) == []


def test_two_at_fault_are_found_among_many() -> None:
    subject = zoo("unet-tiny")
    program = Program(subject.trials.plain, subject.options, step_ms=1.0)
    units = [chain.units[0] for chain in subject.chains if len(chain.units) == 1]
    bare = {option.regions: number for number, option in enumerate(subject.options)}
    taken = tuple(
        (bare[Region(units=(unit,)),], ())
        for unit in [*subject.chains[0].units, *units]
        if (Region(units=(unit,)),) in bare
    )
    taken = tuple(dict(taken).items())
    exact = subject.tried(*program.regions(taken)).line
    error = exact - program.line(taken)
    assert error.max() > 0
    for _ in range(12):
        error = exact - program.line(taken)
        moment = int(error.argmax())
        if error[moment] <= 0:
            break
        before = subject.trials.count
        program.add(interplays_of(choice_of(program, taken), moment, program, subject.trials))
        assert subject.trials.count - before < 70
    assert (exact - program.line(taken)).max() <= 0


@pytest.mark.parametrize("model", ["gpt2-tiny", "unet-tiny", "resnet50-tiny"])
def test_most_pairs_of_options_add_up_to_the_byte_and_all_costs_do(model: str) -> None:
    subject, draw = zoo(model), random.Random(0)
    exact = pairs = 0
    while pairs < 80:
        one, other = draw.sample(subject.options, 2)
        if one.atoms & other.atoms:
            continue
        tried = subject.trials.tried(Placement((*one.regions, *other.regions)))
        if tried is None:
            continue
        line = subject.trials.plain.copy()
        one.change.add_to(line)
        other.change.add_to(line)
        pairs += 1
        exact += bool(np.array_equal(line, tried.line))
        assert tried.cost_ms == pytest.approx(one.cost_ms + other.cost_ms)
    assert exact / pairs >= 0.9
