"""AutoSAC's decisions, as regions with policies."""

from __future__ import annotations

import pytest
from torch.distributed._tools.sac_estimator import SACEstimator, SACStats

pytest.importorskip("pulp", reason="pip install 'boundary-bench[peers]'")
pytest.importorskip("pwlf", reason="pip install 'boundary-bench[peers]'")

from bench.peers import autosac
from bench.peers.peer import PeerRefusedError
from bench.peers.registry import budgets_of
from bench.placement import Kept, Placement
from tests.peers.steps import zoo_step

SHARES = (0.5, 0.65, 0.8)


def kept(stats: SACStats, share: float) -> tuple[Kept, ...]:
    return autosac.kept_calls(stats, SACEstimator()._get_greedy_order_meta(stats), share)


def stats(**changed: object) -> SACStats:
    """Bytes a millisecond, in torch's greedy order: gelu 100, the first addmm 10, the second addmm 5."""
    plain = {
        "func_names": ["t", "addmm", "gelu", "addmm", "view"],
        "runtimes": [0.0, 4.0, 1.0, 8.0, 0.0],
        "memory": [0, 40, 100, 40, 0],
        "view_like_ops": [0, 4],
        "rand_ops": [],
        "saved_autograd_ops": [],
        "inplace_ops": [],
        "force_store_random": False,
    }
    return SACStats(**{**plain, **changed})  # type: ignore[arg-type]


def test_ops_are_given_up_in_the_greedy_order_until_the_share_is_discarded() -> None:
    assert kept(stats(), 0.0) == (Kept(op="addmm"), Kept(op="gelu")), "views are never kept"
    assert kept(stats(), 100 / 180) == (Kept(op="addmm"),)
    assert kept(stats(), 0.6) == (Kept(op="addmm", calls=(1,)),), "the share is reached, not missed"
    assert kept(stats(), 1.0) == ()


def test_what_is_changed_in_place_is_not_kept() -> None:
    """`relu_` changes what the first addmm hands out."""
    changed = stats(func_names=["t", "addmm", "relu_", "addmm", "view"], inplace_ops=[(2, 1)])
    assert kept(changed, 0.0) == (Kept(op="addmm", calls=(1,)),)


def test_the_output_of_the_module_is_not_kept_beside_itself() -> None:
    assert kept(stats(memory=[0, 40, 100, 0, 0]), 100 / 140) == (Kept(op="addmm", calls=(0,)),)


def decided(model: str) -> dict[int, Placement]:
    step = zoo_step(model)
    found = {}
    for budget, answer in autosac.placements(step.profile, step.facts, budgets_of(step.profile, SHARES)):
        assert isinstance(answer, Placement), answer
        assert budget is not None
        found[budget] = answer
    return found


def test_its_placements_of_gpt2_keep_their_budgets_and_replay_what_they_say() -> None:
    step, found = zoo_step("gpt2-tiny"), decided("gpt2-tiny")
    flops = []
    for budget, placement in found.items():
        forecast, log = step.forecaster.by_fake_step(placement)
        assert {p.region for p in log.passes if p.kind == "replay"} == {str(region) for region in placement.regions}
        assert forecast.peak_allocated_bytes <= budget
        flops.append(forecast.replay_flops)
    assert flops == sorted(flops, reverse=True), "a tighter budget replays more"
    assert flops[0] > flops[-1]


def test_it_decides_the_same_twice() -> None:
    assert decided("gpt2-tiny") == decided("gpt2-tiny")


@pytest.mark.parametrize(
    ("model", "share", "reason"),
    [
        ("gpt2-tiny", 0.0, "finds nothing under this budget"),
        ("gpt2-tiny", -2.0, "less than what is there all the time"),
        ("gpt2-tiny", 2.0, "leaves all modules plain"),
        ("llama-lora-tiny", 0.5, "cannot follow frozen parameters"),
    ],
)
def test_what_it_cannot_do_has_a_reason(model: str, share: float, reason: str) -> None:
    step = zoo_step(model)
    ((_, answer),) = autosac.placements(step.profile, step.facts, budgets_of(step.profile, [share]))
    assert isinstance(answer, PeerRefusedError)
    assert reason in str(answer)
