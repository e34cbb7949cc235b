"""ckptplan's planners on our byte profiles."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("ckptplan", reason="pip install 'boundary-bench[peers]'")

from bench.peers.ckptplan import PLANNERS, planned
from bench.peers.peer import PeerRefusedError
from bench.plan.profile import ChainProfile, StepProfile
from tests.peers.profiles import step_of, unit_profile

SAVED = (900, 1700, 400, 1300, 600, 1100)
FORWARD_MS = (3.0, 4.0, 1.0, 6.0, 1.5, 2.0)


def profile() -> StepProfile:
    units = tuple(
        unit_profile(f"h.{index}", "h", saved_bytes=saved, forward_ms=forward_ms)
        for index, (saved, forward_ms) in enumerate(zip(SAVED, FORWARD_MS, strict=True))
    )
    return step_of(ChainProfile(name="h", units=units[:4]), ChainProfile(name="g", units=units[4:]))


def least_ms(saving: int) -> float:
    """Over all subsets of units."""
    subsets = itertools.chain.from_iterable(itertools.combinations(range(6), size) for size in range(7))
    return min(sum(FORWARD_MS[i] for i in subset) for subset in subsets if sum(SAVED[i] for i in subset) >= saving)


@pytest.mark.parametrize("saving", [1, 1000, 2500, 4000, sum(SAVED)])
def test_the_dynamic_program_saves_what_is_asked_at_the_least_cost(saving: int) -> None:
    of = profile()
    placement = planned(of, of.peak_bytes - saving, "dp")
    chosen = [int(region.units[0].removeprefix("h.")) for region in placement.regions]
    assert sum(SAVED[index] for index in chosen) >= saving
    assert sum(FORWARD_MS[index] for index in chosen) == least_ms(saving)


def test_greedy_takes_the_most_bytes_for_a_millisecond_first() -> None:
    of = profile()
    assert planned(of, of.peak_bytes - 1000, "greedy").text == "h.5"
    assert planned(of, of.peak_bytes - 1200, "greedy").text == "h.1+h.5"


def test_uniform_takes_as_few_units_at_equal_distances_as_save_enough() -> None:
    of = profile()
    assert planned(of, of.peak_bytes - 2000, "uniform").text == "h.0+h.3", "2200 bytes"
    assert planned(of, of.peak_bytes - 2201, "uniform").text == "h.0..1:each+h.3..4:each", "three would save 1900"


@pytest.mark.parametrize("planner", PLANNERS)
def test_more_than_all_units_hold_is_refused(planner: str) -> None:
    of = profile()
    with pytest.raises(PeerRefusedError, match="hold 6,000 bytes, and 6,001 must be saved"):
        planned(of, of.peak_bytes - 6001, planner)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_budget_that_the_plain_step_keeps_is_refused(planner: str) -> None:
    of = profile()
    with pytest.raises(PeerRefusedError, match="leaves all blocks plain"):
        planned(of, of.peak_bytes, planner)
