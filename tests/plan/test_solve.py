"""The program on options whose bytes and times are made up, so that its answers are known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from bench.placement.types import Region
from bench.plan.moments import Change, Line
from bench.plan.options import Keep, Option
from bench.plan.solve import MIB, Interplay, Program, Taken

PLAIN: Line = np.array([10, 40, 60, 30], dtype=np.int64) * MIB


def change(*mib: int) -> Change:
    line = np.array(mib, dtype=np.int64) * MIB
    return Change.between(np.zeros_like(line), line)


def option(unit: str, cost_ms: float, *mib: int, keeps: tuple[Keep, ...] = (), policy_ms: float = 0.0) -> Option:
    return Option((Region(units=(unit,)),), frozenset({unit}), cost_ms, change(*mib), policy_ms, keeps)


def keep(call: int, saved_ms: float, *mib: int) -> Keep:
    return Keep((("matmul", call),), saved_ms, change(*mib))


def program(options: Sequence[Option], step_ms: float = 1.0) -> Program:
    return Program(PLAIN, options, step_ms=step_ms)


def units(taken: Sequence[Region]) -> set[str]:
    return {region.units[0] for region in taken}


def test_the_cheapest_option_that_frees_enough_is_taken() -> None:
    choice = program([option("a", 5, 0, 0, -30, 0), option("b", 1, 0, 0, -10, 0)]).within(50 * MIB)
    assert choice is not None
    assert (units(choice.regions), choice.cost_ms) == ({"b"}, 1)
    assert choice.line.tolist() == [mib * MIB for mib in (10, 40, 50, 30)]


def test_what_frees_bytes_elsewhere_than_at_the_peak_is_not_taken() -> None:
    """The most bytes of all, and free: but dead at the peak."""
    choice = program([option("a", 0.1, -9, -39, 0, -29), option("b", 5, 0, 0, -10, 0)]).within(50 * MIB)
    assert choice is not None
    assert units(choice.regions) == {"b"}


def test_a_moment_that_becomes_the_peak_binds() -> None:
    """Taken alone, the cheap option lifts another moment over the budget."""
    choice = program([option("a", 1, 0, 25, -30, 0), option("b", 3, 0, 0, -20, 0)]).within(50 * MIB)
    assert choice is not None
    assert units(choice.regions) == {"b"}


def test_of_two_options_on_one_module_one_is_taken() -> None:
    one, other = option("a", 1, 0, 0, -10, 0), option("a", 2, 0, 0, -15, 0)
    assert program([one, other]).within(36 * MIB) is None


def test_outputs_are_kept_where_there_is_room() -> None:
    block = option("a", 10, 0, -20, -40, 0, keeps=(keep(0, 6, 0, 0, 15, 0), keep(1, 3, 0, 0, 10, 0)))
    subject = program([block])
    for budget, calls, cost in ((59, (0, 1), 1), (45, (0, 1), 1), (39, (0,), 4), (33, (1,), 7), (30, (1,), 7)):
        choice = subject.within(budget * MIB)
        assert choice is not None
        assert choice.cost_ms == pytest.approx(cost)
        assert tuple(call for kept in choice.regions[0].keeps for call in kept.calls) == calls


def test_a_policy_is_paid_once_and_only_where_it_pays() -> None:
    keeps = (keep(0, 1, 0, 0, 1, 0), keep(1, 1, 0, 0, 1, 0))
    cheap, dear = (option("a", 10, 0, 0, -30, 0, keeps=keeps, policy_ms=ms) for ms in (1.5, 2.5))
    with_policy, without = program([cheap]).within(50 * MIB), program([dear]).within(50 * MIB)
    assert with_policy is not None
    assert without is not None
    assert (with_policy.cost_ms, without.cost_ms) == (pytest.approx(9.5), pytest.approx(10))
    assert not without.regions[0].keeps


def test_nothing_is_taken_where_nothing_is_needed() -> None:
    choice = program([option("a", 1, 0, 0, -10, 0)]).within(60 * MIB)
    assert choice is not None
    assert choice.regions == ()


def test_without_options_only_the_plain_step_fits() -> None:
    empty = program([])
    assert empty.within(59 * MIB) is None
    fits = empty.within(60 * MIB)
    assert fits is not None
    assert empty.least_peak().regions == ()


def test_the_least_peak_is_where_another_moment_forbids_more() -> None:
    choice = program([option("a", 1, 0, 0, -30, 0), option("b", 1, 0, -5, 0, 0)]).least_peak()
    assert choice.line.max() == 35 * MIB
    assert units(choice.regions) == {"a", "b"}


def test_of_equal_peaks_the_cheapest() -> None:
    choice = program(
        [option("a", 1, 0, 0, -30, 0), option("b", 9, 0, 0, -30, 0), option("c", 4, -5, 0, 0, -5)]
    ).least_peak()
    assert (choice.line.max(), units(choice.regions)) == (40 * MIB, {"a"})


def test_an_interplay_counts_where_all_its_members_are_taken() -> None:
    """Together the two cheap ones free nothing more than one of them."""
    options = [option("a", 1, 0, 0, -10, 0), option("b", 1, 0, 0, -10, 0), option("c", 5, 0, 0, -10, 0)]
    subject = program(options)
    before = subject.within(40 * MIB)
    assert before is not None
    assert units(before.regions) == {"a", "b"}
    subject.add([Interplay(((0, None), (1, None)), change(0, 0, 10, 0))])
    after = subject.within(40 * MIB)
    assert after is not None
    assert (len(after.regions), "c" in units(after.regions)) == (2, True)
    assert subject.line(((0, ()), (1, ()))).max() == 50 * MIB


def test_an_interplay_may_free_more() -> None:
    options = [option("a", 1, 0, 0, -10, 0), option("b", 1, 0, 0, -5, 0), option("c", 9, 0, 0, -20, 0)]
    subject = program(options)
    subject.add([Interplay(((0, None), (1, None)), change(0, 0, -5, 0))])
    choice = subject.within(40 * MIB)
    assert choice is not None
    assert (units(choice.regions), choice.cost_ms) == ({"a", "b"}, 2)


def test_what_is_forbidden_is_not_taken() -> None:
    subject = program([option("a", 1, 0, 0, -10, 0), option("b", 2, 0, 0, -10, 0)])
    subject.forbid(0)
    choice = subject.within(50 * MIB)
    assert choice is not None
    assert units(choice.regions) == {"b"}


def test_what_is_forbidden_together_is_taken_apart() -> None:
    subject = program([option("a", 1, 0, 0, -10, 0), option("b", 2, 0, 0, -10, 0), option("c", 9, 0, 0, -10, 0)])
    both = subject.within(40 * MIB)
    assert both is not None
    subject.forbid_together(both)
    other = subject.within(40 * MIB)
    assert other is not None
    assert (units(both.regions), units(other.regions)) == ({"a", "b"}, {"a", "c"})


def best(options: Sequence[Option], budget: int) -> float | None:
    """By trying all."""
    costs = []
    for taken in itertools.product(*([None, *_subsets(len(o.keeps))] for o in options)):
        line, cost = PLAIN.copy(), 0.0
        atoms = [atom for o, kept in zip(options, taken, strict=True) if kept is not None for atom in o.atoms]
        if len(set(atoms)) < len(atoms):
            continue
        for o, kept in zip(options, taken, strict=True):
            if kept is not None:
                o.change.add_to(line)
                cost += o.cost_ms + (o.policy_ms if kept else 0)
                for k in kept:
                    o.keeps[k].change.add_to(line)
                    cost -= o.keeps[k].saved_ms
        if line.max() <= budget:
            costs.append(cost)
    return min(costs, default=None)


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [kept for size in range(count + 1) for kept in itertools.combinations(range(count), size)]


@pytest.mark.parametrize("seed", range(30))
def test_the_answer_is_the_best_of_all_choices_and_its_bound_is_none_above_it(seed: int) -> None:
    draw = random.Random(seed)
    options = [
        option(
            draw.choice("abcd"),
            draw.uniform(2, 9),
            *(draw.randint(-20, 8) for _ in PLAIN),
            keeps=tuple(keep(n, draw.uniform(0, 1), *(draw.randint(0, 6) for _ in PLAIN)) for n in range(2)),
            policy_ms=draw.choice((0, 0.3)),
        )
        for _ in range(5)
    ]
    subject = program(options)
    for budget in (55 * MIB, 45 * MIB, 38 * MIB):
        choice, truth = subject.within(budget), best(options, budget)
        assert (choice is None) == (truth is None)
        if choice is not None and truth is not None:
            assert choice.line.max() <= budget
            assert choice.cost_ms == pytest.approx(truth, rel=6e-3, abs=2e-3)
            assert choice.bound_ms <= truth + 1e-6


def test_a_choice_is_named_by_what_is_taken() -> None:
    block = option("a", 10, 0, 0, -40, 0, keeps=(keep(0, 6, 0, 0, 15, 0),))
    subject = program([block])
    choice = subject.within(50 * MIB)
    assert choice is not None
    taken: tuple[Taken, ...] = ((0, (0,)),)
    assert choice.taken == taken
    assert subject.regions(choice.taken) == choice.regions
    assert subject.line(choice.taken).tolist() == choice.line.tolist()
