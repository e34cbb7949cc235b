"""The list of peers, and what all of them place on a model."""

from __future__ import annotations

import dataclasses

import pytest

from bench.peers.registry import PEERS, budgets_of, peer_placements, peers_named
from bench.placement import PlacementError
from bench.trace.log import REPLAY
from tests.peers.steps import zoo_step

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("t5-tiny", "swin-tiny", "unet-tiny", "mixtral-tiny")]
RECREATED = ("chen-sqrt", "chen-recursive", "chen-greedy", "rotor", "checkmate")
NOT_ON_CONVOLUTIONS = {f"transformers-every-{k}" for k in (1, 2, 3, 4)} | {"megatron-core-attention"}


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_without_its_package_is_a_reason(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, name, dataclasses.replace(PEERS[name], packages=("no_such_package",)))
    step = zoo_step("gpt2-tiny")
    answers = peer_placements(step.profile, step.facts, [name], [])
    assert answers.placed == ()
    assert answers.reasons == ((name, "needs no_such_package: pip install 'boundary-bench[peers]'"),)


@pytest.mark.parametrize("model", ["gpt2-tiny", "resnet50-tiny", *SLOW])
def test_every_placement_of_a_peer_without_a_budget_replays_all_its_regions(model: str) -> None:
    step = zoo_step(model)
    names = [name for name in PEERS if name not in ("autosac", "checkmate")]
    answers = peer_placements(step.profile, step.facts, names, ())
    assert {label for label, _ in answers.reasons} <= NOT_ON_CONVOLUTIONS
    for placement in {placement for _, placement in answers.placed}:
        _, log = step.forecaster.by_fake_step(placement)
        replayed = {region_pass.region for region_pass in log.passes if region_pass.kind == REPLAY}
        assert replayed == {str(region) for region in placement.regions}, placement


def test_all_peers_are_named_once_and_in_order() -> None:
    assert tuple(peer.name for peer in peers_named(["all", "rotor"])) == tuple(PEERS)
    assert [peer.name for peer in peers_named(["rotor", "every-2", "rotor"])] == ["every-2", "rotor"]


def test_an_unknown_name_is_an_error_with_close_ones() -> None:
    with pytest.raises(PlacementError, match=r"no peer 'torchtitan-selctive'; did you mean torchtitan-selective"):
        peers_named(["torchtitan-selctive"])


def test_what_is_recreated_is_what_no_one_can_install() -> None:
    assert tuple(peer.name for peer in PEERS.values() if not peer.is_installable) == RECREATED


def test_budgets_are_shares_of_what_can_move() -> None:
    profile = zoo_step("gpt2-tiny").profile
    low, high = budgets_of(profile, [0.0, 1.0])
    assert (low, high) == (profile.persistent_bytes, profile.peak_bytes)


def test_a_budget_stands_in_the_label_and_one_that_cannot_be_kept_has_a_reason() -> None:
    step = zoo_step("gpt2-tiny")
    budget, floor = budgets_of(step.profile, [0.8, 0.0])
    answers = peer_placements(step.profile, step.facts, ["rotor"], [budget, floor])
    ((label, _),) = answers.placed
    assert label == f"rotor ({budget / 2**20:,.1f} MiB)"
    ((label, reason),) = answers.reasons
    assert label == f"rotor ({floor / 2**20:,.1f} MiB)"
    assert reason


def test_a_peer_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("no cells")

    monkeypatch.setitem(PEERS, "rotor", dataclasses.replace(PEERS["rotor"], place=fails))
    step = zoo_step("gpt2-tiny")
    answers = peer_placements(step.profile, step.facts, ["every-block", "rotor"], ())
    assert [label for label, _ in answers.placed] == ["every-block"]
    assert answers.reasons == (("rotor", "failed with ZeroDivisionError: no cells"),)
