"""Mixtral at test size: placements replay the same routing and train like the plain step, however experts run."""

import pytest

from bench.spec import PRECISIONS, SpecError, WorkloadSpec
from bench.step import build_training_step
from bench.worker.probe import probe
from models.mixtral import ROUTED
from tests.models.family_checks import (
    CPU,
    FamilyCase,
    assert_precision_trains_or_is_refused,
    assert_same,
    assert_trains_alike,
    placement_texts,
    train,
)

SETTINGS = {
    "layers": 3,
    "width": 32,
    "feed_forward": 48,
    "heads": 2,
    "key_value_heads": 1,
    "experts": 4,
    "experts_per_token": 2,
    "vocabulary": 256,
    "positions": 32,
    "router_loss": 0.5,
}


def mixtral(**changed: object) -> FamilyCase:
    return FamilyCase(
        target="models.mixtral",
        settings={**SETTINGS, **changed},  # type: ignore[dict-item]
        workload=WorkloadSpec(micro_batch=2, shape={"sequence_length": 16}, data="text"),
        # The load-balancing loss takes the router's logits out of the block through a hook.
        refused={"reentrant": "a forward hook inside"},
    )


CASES = {routed: mixtral(routed=routed) for routed in ROUTED}
# Experts that run one by one: enough placements to replay every shape that the routing gives.
TEXTS = [("grouped_mm", text) for text in placement_texts(CASES["grouped_mm"])] + [
    ("eager", text)
    for text in (
        "model.layers.0..2:each",
        "model.layers.0..1+model.layers.0..1:each+model.layers.2",
        "model.layers.0..2.mlp.experts:each",
        "model.layers.0..2:each:keep.matmul%2",
    )
]


@pytest.mark.parametrize(("routed", "text"), TEXTS)
def test_every_placement_trains_like_the_plain_step(routed: str, text: str) -> None:
    assert_trains_alike(CASES[routed], text)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("routed", ROUTED)
def test_every_precision_trains_or_says_why_not(routed: str, precision: str) -> None:
    assert_precision_trains_or_is_refused(CASES[routed], precision)


def test_both_ways_to_run_experts_are_the_same_model() -> None:
    grouped, eager = (train(build_training_step(case.controls(), CPU)) for case in CASES.values())
    assert_same(eager, grouped, exact=False)


def test_the_routers_are_trained_to_spread_their_load() -> None:
    with_loss, without = (
        build_training_step(mixtral(router_loss=weight).controls(), CPU).forward().item() for weight in (0.5, 0.0)
    )
    # Equation 4 of Fedus et al. 2021, times the experts of a token: 2 where the load is even, as it nearly is with
    # random routers; 4 where all tokens meet the same expert.
    assert 0.5 * 1.9 < with_loss - without < 0.5 * 2.5


@pytest.mark.parametrize("routed", ROUTED)
def test_the_probe_finds_attention_where_fake_tensors_cannot_follow_the_routing(routed: str) -> None:
    facts = probe(CASES[routed].controls())["facts"]
    assert facts["attention_kernels"] == ["_scaled_dot_product_flash_attention_for_cpu"]


def test_an_unknown_way_to_run_experts_is_refused() -> None:
    with pytest.raises(SpecError, match=r"model\.settings\.routed: 'batched_mm' is not one of grouped_mm, eager"):
        build_training_step(mixtral(routed="batched_mm").controls(), CPU)
