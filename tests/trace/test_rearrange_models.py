"""The fast way on every model of the zoo: equal to whole fake steps, to the byte."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.entry import config_folder
from bench.cli.request import controls_of
from bench.cli.resolvers import register_resolvers
from bench.placement import generate_placements
from bench.spec import ChainInfo, Controls
from bench.step import load_family
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError
from tests.trace.rearrange_checks import assert_equal_to_fake_step, zoo_forecaster

CONVOLUTIONAL = ("resnet50-tiny", "densenet-tiny", "unet-tiny")
MODELS = (
    "gpt2-tiny",
    "llama-tiny",
    "llama-lora-tiny",
    "t5-tiny",
    "vit-tiny",
    "swin-tiny",
    "mixtral-tiny",
    *CONVOLUTIONAL,
)
EVERYTHING = {
    "none": True,
    "each": True,
    "every": [2, 3],
    "first": [1, 3],
    "but_last": [1],
    "spans": [2, "sqrt"],
    "nested": [2, "sqrt"],
    "policies": ["matmul", "attention", "conv", "matmul%2", "conv%2"],
    "options": ["no-rng", "no-early-stop", "no-determinism-check"],
}


def controls(model: str, *overrides: str) -> Controls:
    register_resolvers()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        options = OmegaConf.to_container(compose("sweep", [f"model={model}", "device=cpu", *overrides]), resolve=True)
    assert isinstance(options, dict)
    return controls_of({str(key): value for key, value in options.items()})


@functools.lru_cache(maxsize=1)
def of_model(model: str) -> tuple[Forecaster, Sequence[ChainInfo]]:
    """The tests of one model follow each other, and share what it takes to build it."""
    of = controls(model)
    forecaster, fake = zoo_forecaster(of)
    return forecaster, load_family(of.model).chains(fake.step.model)


@pytest.mark.parametrize("generator", ["each", "spans", "policies"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_forecast_as_a_fake_step_forecasts_it(model: str, generator: str) -> None:
    forecaster, chains = of_model(model)
    kept = "conv%2" if model in CONVOLUTIONAL else "matmul%2"
    options = {"each": True, "spans": ["sqrt"], "policies": [kept]}
    for entry in generate_placements({generator: options[generator]}, chains):
        assert_equal_to_fake_step(forecaster, entry.text)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # some hundred fake steps
@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("precision=bf16-autocast",),
        ("precision=bf16-pure",),
        ("workload.accumulation=2", "optimizer=sgd"),
        ("workload.accumulation=2", "workload.lengths=variable"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("model", MODELS)
def test_every_generator_is_forecast_as_a_fake_step_forecasts_it(model: str, overrides: tuple[str, ...]) -> None:
    of = controls(model, *overrides)
    forecaster, fake = zoo_forecaster(of)
    chains = load_family(of.model).chains(fake.step.model)
    kinds = sorted({kind for chain in chains for kind in chain.kinds})
    refused = 0
    entries = generate_placements({**EVERYTHING, "kinds": kinds}, chains)
    for entry in entries:
        try:
            assert_equal_to_fake_step(forecaster, entry.text)
        except CannotRearrangeError as error:
            assert "hooks" in str(error)  # noqa: PT017  # a refusal that is named is no wrong answer
            refused += 1
    assert refused < len(entries) // 4
