"""What the group `placements` asks of the planner, and what a measured study tells it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from bench.cli.planning import knowledge, plan_request, plan_rounds, replay_shares
from bench.frontier import build_frontier
from bench.records import PlanRequest, Plans
from bench.spec import SpecError
from tests.builders import MIB, make_records, make_study
from tests.records.test_plans import plan_of

Compose = Callable[..., dict[str, Any]]

TIMES = {"none": [100.0] * 12, "a": [110.0] * 12, "b": [140.0] * 12}
PEAKS = {"none": 100 * MIB, "a": 60 * MIB, "b": 40 * MIB}


def test_planned_and_peers_go_together_and_are_matched(composed: Compose) -> None:
    for chosen in ("[planned,peers]", "[peers,planned]"):
        placements = composed([f"placements={chosen}"])["placements"]
        assert placements["none"] is True
        assert plan_request(placements) == PlanRequest(
            count=8, peers=("all",), peer_budgets=("35%", "50%", "65%", "80%"), match_peers=True
        )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["placements=quick"], PlanRequest()),
        (["placements=planned"], PlanRequest(count=8)),
        (["placements=default"], PlanRequest(count=6)),
        (["placements=convolutional-default"], PlanRequest(count=6)),
        (["placements=planned", "placements.planned=3"], PlanRequest(count=3)),
        (["placements=quick", "placements.budgets=[8GiB,60%]"], PlanRequest(budgets=("8GiB", "60%"))),
        (["placements=quick", "placements.budgets=8GiB"], PlanRequest(budgets=("8GiB",))),
        (["placements=quick", "placements.peers=[rotor,every-2]"], PlanRequest(peers=("every-2", "rotor"))),
        (["placements=planned", "placements.peers=[all]", "placements.match_peers=false"],
         PlanRequest(count=8, peers=("all",))),
        (["placements=quick", "placements.peers=all", "placements.match_peers=true"],
         PlanRequest(peers=("all",), match_peers=True)),
        (["placements=[quick,planned]"], PlanRequest(count=8)),
        (["placements=planned", "placements.explicit=[none]"], PlanRequest()),
        (["placements=planned", "placements.peer_budgets=[0.5]"], PlanRequest(count=8)),
    ],
)  # fmt: skip
def test_options_ask_the_planner_for(composed: Compose, overrides: list[str], expected: PlanRequest) -> None:
    assert plan_request(composed(overrides)["placements"]) == expected


def test_groups_that_go_together_keep_their_generators(composed: Compose) -> None:
    placements = composed(["model=gpt2-tiny", "placements=[quick,planned]"])["placements"]
    assert (placements["each"], placements["every"], placements["planned"]) == (True, [2], 8)


def test_a_number_up_to_one_is_a_share_of_what_can_move() -> None:
    assert plan_request({"budgets": [0.35, 1, "70%", 2**30]}).budgets == ("35%", "100%", "70%", "1073741824")


def test_a_budget_that_is_written_twice_is_one() -> None:
    assert plan_request({"budgets": ["60%", 0.6]}).budgets == ("60%",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"planned": -1}, "placements.planned: expected a whole number of placements, got -1"),
        ({"planned": "many"}, "placements.planned: expected a whole number"),
        ({"budgets": ["8GB", "lots"]}, "placements.budgets: 'lots' is no size; write 8GiB, 8GB or 60%"),
        ({"peers": ["rotr"]}, "placements.peers: no peer 'rotr'; did you mean rotor"),
        ({"peers": [3]}, "placements.peers: expected names of peers"),
        ({"peers": ["rotor"], "peer_budgets": ["-1GiB"]}, "placements.peer_budgets: '-1GiB' is no size"),
        ({"planned": 2, "match_peers": "yes"}, "placements.match_peers: expected true, false or null, got 'yes'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as error:
        plan_request(options)
    assert said in str(error.value)


@pytest.mark.parametrize("rounds", [0, 3, True, "2"])
def test_there_are_one_or_two_rounds(rounds: object) -> None:
    with pytest.raises(SpecError, match=r"placements\.rounds: expected 1, or 2"):
        plan_rounds({"rounds": rounds})


def test_the_planner_learns_by_what_share_steps_took_longer_and_where_the_gaps_are() -> None:
    known = knowledge(make_study(("none", "a", "b")), make_records(TIMES, PEAKS))
    assert known.measured_shares == {"a": pytest.approx(0.1), "b": pytest.approx(0.4)}
    assert known.budgets == (50 * MIB, 80 * MIB), "30 % × 20 MiB before 10 % × 40 MiB"


def test_a_peers_peak_that_no_plan_was_shown_to_match_is_planned_for_again() -> None:
    plans = Plans(
        request=PlanRequest(count=1, peers=("rotor",)),
        rows=(
            plan_of("a", 60 * MIB, label="rotor (60.0 MiB)", peer="rotor", is_installable=False),
            plan_of("b", 40 * MIB),
        ),
    )
    records = dataclasses.replace(make_records(TIMES, PEAKS), plans=plans)
    assert knowledge(make_study(("none", "a", "b")), records).budgets == (50 * MIB, 80 * MIB, 60 * MIB)


def test_a_time_without_an_interval_corrects_nothing() -> None:
    study = make_study(("none", "a", "b"))
    few = make_records({"none": [100.0] * 12, "a": [110.0] * 12, "b": [140.0]}, PEAKS)
    assert set(replay_shares(build_frontier(study, few))) == {"a"}


def test_times_over_another_placement_correct_nothing() -> None:
    without = {"a": TIMES["a"], "b": TIMES["b"]}, {"a": PEAKS["a"], "b": PEAKS["b"]}
    records = make_records(*without, {"none": ("oom", "2 GiB")})
    assert knowledge(make_study(("none", "a", "b")), records).measured_shares == {}
