"""Plans against peers in exact bytes and counted cost."""

from __future__ import annotations

import dataclasses
import math

import pytest

from bench.peers.registry import PEERS
from bench.peers.standing import Standing, mean_ratios, standings
from bench.plan.costs import counted_costs
from tests.peers.steps import zoo_step

NAMES = ("every-2", "torchtitan-selective", "chen-sqrt", "rotor")


@pytest.fixture(scope="module")
def rows() -> tuple[Standing, ...]:
    step = zoo_step("gpt2-tiny")
    return standings(step.forecaster, step.facts.chains, step.facts.new_step, NAMES)[0]


def test_each_peer_stands_beside_a_plan_with_no_higher_peak_and_no_higher_cost(rows: tuple[Standing, ...]) -> None:
    assert {row.peer for row in rows} == set(NAMES)
    for row in rows:
        assert row.our_peak_bytes <= row.peak_bytes, row
        assert row.ratio <= 1 + 1e-9, row
        assert row.is_installable == PEERS[row.peer].is_installable


def test_peaks_and_costs_are_those_of_the_placements_themselves(rows: tuple[Standing, ...]) -> None:
    forecaster = zoo_step("gpt2-tiny").forecaster
    costs = counted_costs(forecaster.plain_log)
    for row in rows:
        assert row.peak_bytes == forecaster.fast(row.placement).peak_allocated_bytes
        extra_ms = costs.replay_ms(forecaster.rearranged(row.placement))
        assert row.cost == pytest.approx(1 + extra_ms / costs.step_ms)


def test_what_a_peer_cannot_place_has_a_reason() -> None:
    step = zoo_step("gpt2-tiny")
    _, missing = standings(step.forecaster, step.facts.chains, step.facts.new_step, ["chen-greedy"])
    assert any("its least plan takes" in why for why in missing.values())


def test_the_mean_is_geometric_and_of_each_peer_by_itself() -> None:
    one = Standing(
        peer="rotor",
        is_installable=False,
        label="rotor (1.0 MiB)",
        placement="a",
        peak_bytes=2,
        cost=1.25,
        our_placement="b",
        our_peak_bytes=1,
        our_cost=1.0,
    )
    same = dataclasses.replace(one, our_cost=1.25)
    other = dataclasses.replace(one, peer="every-2", cost=2.0)
    means = mean_ratios([one, same, other])
    assert means["rotor"] == pytest.approx((math.sqrt(0.8), 1.0, 2))
    assert means["every-2"] == pytest.approx((0.5, 0.5, 1))
