"""Llama, whole and with LoRA, at test size: placements train like the plain step, adapters alone are trained."""

import pytest
import torch

from bench.spec import PRECISIONS, SpecError, WorkloadSpec
from bench.step import build_training_step
from models.llama import PROJECTIONS
from tests.models.family_checks import (
    CPU,
    FamilyCase,
    assert_precision_trains_or_is_refused,
    assert_trains_alike,
    placement_texts,
    train,
)

SETTINGS = {
    "layers": 3,
    "width": 32,
    "feed_forward": 64,
    "heads": 4,
    "key_value_heads": 2,
    "vocabulary": 256,
    "positions": 32,
}
LLAMA = FamilyCase(
    target="models.llama",
    settings=SETTINGS,
    workload=WorkloadSpec(micro_batch=2, accumulation=2, shape={"sequence_length": 16}, lengths="variable"),
)
# The embedding is frozen, so nothing that enters the first block requires a gradient.
NO_GRADIENT_ENTERS = {"reentrant": r"no input of model\.layers\.0 requires a gradient"}
LORA = FamilyCase(
    target="models.llama",
    settings={**SETTINGS, "lora_rank": 4, "lora_targets": "q_proj,v_proj,down_proj"},
    workload=WorkloadSpec(micro_batch=2, shape={"sequence_length": 16}, data="text"),
    refused=NO_GRADIENT_ENTERS,
)
CASES = {"llama": LLAMA, "llama-lora": LORA}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, case in CASES.items() for text in placement_texts(case)]
)
def test_every_placement_trains_like_the_plain_step(name: str, text: str) -> None:
    assert_trains_alike(CASES[name], text)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_precision_trains_or_says_why_not(name: str, precision: str) -> None:
    assert_precision_trains_or_is_refused(CASES[name], precision)


def test_lora_trains_its_adapters_and_nothing_else() -> None:
    step = build_training_step(LORA.controls(), CPU)
    before = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    trained = train(step)
    moved = {name for name, value in trained.parameters.items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if ".lora_" in name}
    # q_proj, v_proj and down_proj of three blocks, two factors each.
    assert len(moved) == 3 * 3 * 2
    assert {id(parameter) for parameter in step.optimizer.state} == {
        id(parameter) for name, parameter in step.model.named_parameters() if name in moved
    }


def test_every_projection_can_be_adapted() -> None:
    case = FamilyCase(
        target="models.llama", settings={**SETTINGS, "lora_rank": 2, "lora_targets": "all"}, workload=LORA.workload
    )
    names = [name for name, p in build_training_step(case.controls(), CPU).model.named_parameters() if p.requires_grad]
    assert len(names) == 3 * len(PROJECTIONS) * 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lora_rank": -1}, r"model\.settings\.lora_rank: 0 for none, or a rank above 0, got -1"),
        ({"lora_rank": 2, "lora_targets": "q_proj,c_attn"}, r"lora_targets: Llama has no layer 'c_attn' to adapt"),
    ],
)
def test_wrong_lora_settings_are_named(changed: dict[str, object], message: str) -> None:
    case = FamilyCase(target="models.llama", settings={**SETTINGS, **changed}, workload=LORA.workload)  # type: ignore[dict-item]
    with pytest.raises(SpecError, match=message):
        build_training_step(case.controls(), CPU)
