"""Text samples: real windows of a real text, reproducible, as long as the workload says."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

import models.gpt2
import models.llama
import models.mixtral
import models.t5
from bench.spec import PRECISIONS, SpecError, WorkloadSpec
from bench.step import build_training_step
from models.text import TEXT, draw_lengths, draw_tokens
from tests.models.family_checks import (
    CPU,
    FamilyCase,
    assert_precision_trains_or_is_refused,
    assert_trains_alike,
    placement_texts,
)

GPT2 = FamilyCase(
    target="models.gpt2",
    settings={"layers": 3, "width": 32, "heads": 2, "vocabulary": 256, "positions": 32},
    workload=WorkloadSpec(micro_batch=2, shape={"sequence_length": 16}, data="text"),
)
T5 = FamilyCase(
    target="models.t5",
    settings={"layers": 3, "width": 32, "feed_forward": 64, "heads": 2, "vocabulary": 256},
    workload=WorkloadSpec(
        micro_batch=2,
        accumulation=3,
        shape={"sequence_length": 16, "target_length": 8},
        data="text",
        lengths="variable",
    ),
    # A reentrant region runs a backward of its own, so the gradient of a tensor that several blocks share (position
    # bias, encoder output) is summed in another order.
    rounded=("reentrant",),
)
CASES = {"gpt2": GPT2, "t5": T5}
CONTENT = TEXT.read_bytes()


def fresh(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def workload(**changed: Any) -> WorkloadSpec:
    return WorkloadSpec(**{"micro_batch": 3, "data": "text", **changed})


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, case in CASES.items() for text in placement_texts(case)]
)
def test_every_placement_trains_like_the_plain_step(name: str, text: str) -> None:
    assert_trains_alike(CASES[name], text)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_precision_trains_or_says_why_not(name: str, precision: str) -> None:
    assert_precision_trains_or_is_refused(CASES[name], precision)


def test_every_sample_is_a_window_of_the_text() -> None:
    tokens = draw_tokens(workload(), fresh(), length=40, vocabulary=256)
    assert tokens.shape == (3, 40)
    assert tokens.dtype == torch.int64
    assert all(bytes(sample.tolist()) in CONTENT for sample in tokens)


def test_a_seed_gives_the_same_samples_and_another_seed_others() -> None:
    first, again, other = (draw_tokens(workload(), fresh(seed), length=40, vocabulary=256) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_micro_batches_of_a_step_differ() -> None:
    generator = fresh()
    first, second = (draw_tokens(workload(), generator, length=40, vocabulary=256) for _ in range(2))
    assert not torch.equal(first, second)


def test_the_whole_text_fits_one_sample_and_no_more() -> None:
    tokens = draw_tokens(workload(micro_batch=1), fresh(), length=len(CONTENT), vocabulary=256)
    assert bytes(tokens[0].tolist()) == CONTENT
    with pytest.raises(
        SpecError, match=rf"the text has {len(CONTENT)} bytes, a sample of {len(CONTENT) + 1} does not fit"
    ):
        draw_tokens(workload(), fresh(), length=len(CONTENT) + 1, vocabulary=256)


def test_the_labels_of_t5_are_what_follows_its_input() -> None:
    step = build_training_step(T5.controls(), CPU)
    for batch in step.batches:
        for source, target in zip(batch["input_ids"], batch["labels"], strict=True):
            assert bytes([*source.tolist(), *target.tolist()]) in CONTENT


def test_text_needs_a_token_for_every_byte() -> None:
    with pytest.raises(SpecError, match=r"model\.settings\.vocabulary must be at least 256, got 255"):
        draw_tokens(workload(), fresh(), length=8, vocabulary=255)


FAMILIES: list[tuple[ModuleType, FamilyCase]] = [
    (models.gpt2, GPT2),
    (models.t5, T5),
    (models.llama, FamilyCase(target="", settings={**GPT2.settings, "key_value_heads": 1}, workload=GPT2.workload)),
    (models.mixtral, FamilyCase(target="", settings={**GPT2.settings, "key_value_heads": 1}, workload=GPT2.workload)),
]


@pytest.mark.parametrize(("family", "case"), FAMILIES, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": "images"}, r"workload\.data: 'images' is not one of synthetic, text"),
        ({"lengths": "ragged"}, r"workload\.lengths: 'ragged' is not one of fixed, variable"),
        (
            {"lengths": "variable", "accumulation": 1},
            r"variable needs workload\.accumulation of at least 2, got 1",
        ),
    ],
)
def test_a_workload_that_text_cannot_have_is_refused(
    family: ModuleType, case: FamilyCase, changed: dict[str, Any], message: str
) -> None:
    model = family.build(**case.settings)
    with pytest.raises(SpecError, match=message):
        family.batch(model, WorkloadSpec(**{"micro_batch": 1, "shape": {"sequence_length": 16}, **changed}), fresh())


@pytest.mark.parametrize("seed", range(5))
def test_the_first_micro_batch_is_the_longest_and_later_ones_vary(seed: int) -> None:
    generator = fresh(seed)
    varied = workload(accumulation=50, shape={"sequence_length": 16}, lengths="variable")
    lengths = []
    for _ in range(varied.accumulation):
        (length,) = draw_lengths(varied, generator, sequence_length=256)
        draw_tokens(varied, generator, length=length, vocabulary=256)
        lengths.append(length)
    assert lengths[0] == 16
    assert min(lengths) >= 4
    assert max(lengths) <= 16
    assert len(set(lengths)) > 5


def test_fixed_lengths_are_the_shapes_or_the_familys_own() -> None:
    given = workload(shape={"target_length": 7})
    assert draw_lengths(given, fresh(), sequence_length=128, target_length=64) == (128, 7)
