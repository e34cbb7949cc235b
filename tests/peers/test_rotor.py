"""rotor's dynamic program against brute force, against Revolve's optimum, and as placements."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from bench.peers.errors import OverBudgetError
from bench.peers.rotor import AFTER, from_profile, optimal_schedule, placement, plain_peak, rotor
from bench.peers.rotor_schedule import Keep, Rerun, Schedule, Stage, operations, peak_bytes, rerun_ms, total_ms
from tests.peers.profiles import chain_profile, two_chain_profile


def random_chain(random_numbers: random.Random, count: int) -> tuple[Stage, ...]:
    stages = []
    for index in range(count):
        output = random_numbers.randint(1, 6)
        stages.append(
            Stage(
                name=f"u.{index}",
                forward_ms=random_numbers.randint(1, 9),
                backward_ms=random_numbers.randint(1, 9),
                output_bytes=output,
                saved_bytes=output + random_numbers.randint(0, 12),
                forward_extra_bytes=random_numbers.randint(0, 3),
                backward_extra_bytes=random_numbers.randint(0, 3),
            )
        )
    return tuple(stages)


def all_schedules(first: int, last: int) -> Iterator[Schedule]:
    if first == last:
        yield Keep(first, None)
        return
    for rest in all_schedules(first + 1, last):
        yield Keep(first, rest)
    for split in range(first + 1, last + 1):
        for rest in all_schedules(split, last):
            for replay in all_schedules(first, split - 1):
                yield Rerun(first, split, rest, replay)


@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_the_fastest_of_all_nestings_at_every_budget(seed: int) -> None:
    random_numbers = random.Random(seed)
    stages = random_chain(random_numbers, 6)
    points = [(peak_bytes(s, stages, input_bytes=2), total_ms(s, stages)) for s in all_schedules(0, 5)]
    assert len(points) == 394  # of six stages: the sixth large Schröder number
    for budget in range(min(peak for peak, _ in points) - 1, plain_peak(stages, 2) + 1):
        fastest = min((ms for peak, ms in points if peak <= budget), default=None)
        if fastest is None:
            with pytest.raises(OverBudgetError):
                optimal_schedule(stages, budget, input_bytes=2, slots=budget)
            continue
        found = optimal_schedule(stages, budget, input_bytes=2, slots=budget)
        assert total_ms(found, stages) == fastest
        assert peak_bytes(found, stages, input_bytes=2) <= budget


def revolve_advances(steps: int, snapshots: int) -> int:
    """t(l, c) = r·l - β(c + 1, r - 1) of Griewank and Walther 2000 (Algorithm 799), the steps that revolve advances in
    all beyond the recorded ones; β(c, r) = C(c + r, c), and r is the one with β(c, r - 1) < l ≤ β(c, r)."""
    repeats = next(r for r in range(steps + 1) if math.comb(snapshots + r, snapshots) >= steps)
    return repeats * steps - (math.comb(snapshots + repeats, snapshots + 1) if repeats else 0)


@pytest.mark.parametrize(("steps", "snapshots", "advances"), [(10, 1, 45), (3, 3, 2), (10, 3, 15), (56, 5, 140)])
def test_the_closed_form_gives_figures_that_can_be_checked_by_hand(steps: int, snapshots: int, advances: int) -> None:
    # One snapshot: 9 + 8 + … + 1. Enough snapshots: all but the last step once. β(3, 2) = 10 and β(5, 3) = 56 are full:
    # 2 · 10 - β(4, 1) and 3 · 56 - β(6, 2).
    assert revolve_advances(steps, snapshots) == advances


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13, 21])
@pytest.mark.parametrize("snapshots", [1, 2, 3, 4, 6])
def test_a_homogeneous_chain_costs_what_revolve_costs(steps: int, snapshots: int) -> None:
    # One ā is so large that two do not fit; then each stage is recorded right before its backward, as in revolve.
    tape = 50
    stages = tuple(
        Stage(name=f"u.{i}", forward_ms=1, backward_ms=0, output_bytes=1, saved_bytes=tape) for i in range(steps)
    )
    # The snapshots (the input is one of them), the state that is recorded from, one ā, one gradient.
    budget = snapshots + 1 + tape + 1
    found = optimal_schedule(stages, budget, input_bytes=1, slots=budget)
    recorded = sum(kind == "F_all" for kind, _ in operations(found))
    advanced = sum(kind in ("F_ck", "F_none") for kind, _ in operations(found))
    assert recorded == steps
    assert advanced == revolve_advances(steps, snapshots)


def test_sizes_are_rounded_up_to_slots_so_the_budget_holds_to_the_byte() -> None:
    stages = random_chain(random.Random(3), 30)
    large = tuple(
        Stage(
            name=s.name,
            forward_ms=s.forward_ms,
            backward_ms=s.backward_ms,
            output_bytes=s.output_bytes * 1_000_003,
            saved_bytes=s.saved_bytes * 1_000_003,
        )
        for s in stages
    )
    for share in (0.4, 0.6, 0.8):
        budget = int(plain_peak(large) * share)
        coarse, fine = (optimal_schedule(large, budget, slots=slots) for slots in (500, 5000))
        assert peak_bytes(coarse, large) <= budget
        assert peak_bytes(fine, large) <= budget
        assert rerun_ms(fine, large) > 0
        assert total_ms(fine, large) <= total_ms(coarse, large) <= 1.02 * total_ms(fine, large)


def test_with_room_for_all_nothing_is_rerun() -> None:
    stages = random_chain(random.Random(1), 9)
    found = optimal_schedule(stages, plain_peak(stages), slots=plain_peak(stages))
    assert [kind for kind, _ in operations(found)] == ["F_all"] * 9 + ["B"] * 9
    assert placement(found, stages).text == "none"


def test_a_rerun_is_a_region_and_a_rerun_in_its_replay_is_nested() -> None:
    stages = tuple(Stage(name=f"h.{i}", forward_ms=1, backward_ms=1, output_bytes=1, saved_bytes=5) for i in range(5))
    inner = Rerun(0, 2, Keep(2, None), Rerun(0, 1, Keep(1, None), Keep(0, None)))
    schedule = Rerun(0, 3, Keep(3, Keep(4, None)), inner)
    assert [f"{kind} {index}" for kind, index in operations(schedule)] == [
        *("F_ck 0", "F_none 1", "F_none 2", "F_all 3", "F_all 4", "B 4", "B 3"),
        *("F_ck 0", "F_none 1", "F_all 2", "B 2", "F_ck 0", "F_all 1", "B 1", "F_all 0", "B 0"),
    ]
    assert placement(schedule, stages).text == "h.0..1+h.0..2+h.0"
    assert total_ms(schedule, stages) == 5 + (3 + 2 + 1 + 0) + 5


def test_a_schedule_that_lacks_an_input_is_no_schedule() -> None:
    stages = random_chain(random.Random(0), 3)
    with pytest.raises(ValueError, match=r"F_all of stage 1 \(u.1\) lacks ā of stage 0"):
        peak_bytes(Keep(1, Keep(2, None)), stages)


def test_the_stage_after_the_chains_closes_the_gap_to_the_true_peak_and_time() -> None:
    profile = chain_profile(count=6, head_bytes=700, head_ms=3.5)
    stages, input_bytes = from_profile(profile)
    assert stages[-1].name == AFTER
    assert plain_peak(stages, input_bytes) == profile.peak_bytes - profile.persistent_bytes
    assert sum(s.forward_ms + s.backward_ms for s in stages) == pytest.approx(profile.step_ms)


def test_a_region_stays_in_its_chain() -> None:
    for share in (0.3, 0.4, 0.5, 0.7):
        profile = two_chain_profile()
        budget = profile.persistent_bytes + int((profile.peak_bytes - profile.persistent_bytes) * share)
        for region in rotor(profile, budget).regions:
            assert len({unit.split(".")[0] for unit in region.units}) == 1


def test_a_budget_that_nothing_fits_is_an_error_and_no_budget_asks_for_the_least_peak() -> None:
    profile = chain_profile(count=8, head_bytes=0, head_ms=1.0)
    with pytest.raises(OverBudgetError, match="no persistent schedule fits into 100 bytes"):
        rotor(profile, profile.persistent_bytes + 100)
    with pytest.raises(OverBudgetError, match="its budget must be above what persists"):
        rotor(profile, profile.persistent_bytes)
    stages, input_bytes = from_profile(profile)
    least = peak_bytes(optimal_schedule(stages, None, input_bytes=input_bytes), stages, input_bytes=input_bytes)
    with pytest.raises(OverBudgetError):
        optimal_schedule(stages, least - 10, input_bytes=input_bytes, slots=least - 10)


def test_a_hundred_stages_are_planned_within_a_thousand_nested_calls() -> None:
    stages = random_chain(random.Random(5), 100)
    found = optimal_schedule(stages, plain_peak(stages) // 5)
    assert peak_bytes(found, stages) <= plain_peak(stages) // 5
    assert sum(kind == "B" for kind, _ in operations(found)) == 100
