"""What differs in the controls, in words."""

from __future__ import annotations

import dataclasses

import pytest

from bench.compare import difference_words, unlike_words
from bench.spec import Controls, DeviceSpec, Facts, ModelSpec, OptimizerSpec, RecipeSpec, WorkloadSpec, flat_controls
from tests.builders import make_controls
from tests.compare.studies import longer_sequences, with_torch


def words(candidate: Controls) -> tuple[str, ...]:
    return difference_words(flat_controls(make_controls()), flat_controls(candidate))


def unlike(candidate: Controls) -> tuple[str, ...]:
    return unlike_words(flat_controls(make_controls()), flat_controls(candidate))


@pytest.mark.parametrize(
    ("candidate", "said", "is_like"),
    [
        (make_controls(), (), True),
        (with_torch("2.14.0"), ("torch 2.13.0 → 2.14.0",), True),
        (longer_sequences(512), ("sequence_length 16 → 512",), False),
        (make_controls(precision="bf16-autocast"), ("precision fp32 → bf16-autocast",), True),
        (make_controls(optimizer=OptimizerSpec(name="sgd", settings={"lr": 0.1})),
         ("optimizer adamw → sgd", "optimizer lr not set → 0.1"), True),
        (make_controls(recipe=RecipeSpec(clip_norm=1.0)), ("recipe clip_norm not set → 1",), True),
        (make_controls(device=DeviceSpec(kind="cpu", threads=4)), ("device threads 1 → 4",), False),
        (make_controls(workload=WorkloadSpec(micro_batch=8, shape={"sequence_length": 16})),
         ("micro_batch 4 → 8",), False),
        (make_controls(model=ModelSpec(name="toy", target="models.toy", settings={"layers": 3})),
         ("model layers 2 → 3",), False),
        # Of two models, neither module nor settings: they have nothing to do with each other.
        (make_controls(model=ModelSpec(name="llama", target="models.llama", settings={"layers": 3})),
         ("model toy → llama",), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_each_control_is_said_with_both_values(candidate: Controls, said: tuple[str, ...], is_like: bool) -> None:
    assert words(candidate) == said
    assert (unlike(candidate) == ()) == is_like


def test_another_device_is_not_like_for_like() -> None:
    facts = Facts(device_name="Other CPU", versions={"torch": "2.13.0"}, attention_kernels=("flash",))
    assert (
        words(make_controls(facts=facts)) == unlike(make_controls(facts=facts)) == ("device_name Toy CPU → Other CPU",)
    )


def test_the_job_is_said_before_how_it_is_done() -> None:
    both = dataclasses.replace(with_torch("2.14.0"), precision="bf16-pure", workload=longer_sequences(8).workload)
    assert words(both) == ("sequence_length 16 → 8", "precision fp32 → bf16-pure", "torch 2.13.0 → 2.14.0")


def test_which_of_several_equal_devices_it_was_is_no_difference() -> None:
    assert words(make_controls(device=DeviceSpec(kind="cpu", index=3))) == ()


def test_a_whole_number_written_as_a_fraction_is_no_difference() -> None:
    settings = {"layers": 2.0}
    assert words(make_controls(model=ModelSpec(name="toy", target="models.toy", settings=settings))) == ()
