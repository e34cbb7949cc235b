"""Forecasts by fake steps against measured peaks, for every model of the zoo at test size."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.entry import config_folder
from bench.cli.request import controls_of
from bench.cli.resolvers import register_resolvers
from bench.measure import measure_memory
from bench.placement import generate_placements, parse_placement
from bench.step import build_training_step, load_family
from bench.trace.fake import FakeStep
from bench.trace.record import record_fake_step
from bench.trace.routing import record_routing
from bench.trace.workspaces import Rehearsals
from bench.worker.bench import Bench

CPU = torch.device("cpu")
SCALARS = 512
"""Bytes: numbers of 8 bytes each that autograd saves, which no fake tensor stands for."""
DRIFT = 0.03
"""Of what can move: routing is recorded before the first step, and weights move on."""


def composed(*overrides: str) -> dict[str, Any]:
    register_resolvers()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        options: Any = OmegaConf.to_container(compose("sweep", ["device=cpu", *overrides]), resolve=True)
    return dict(options)


def errors(*overrides: str) -> dict[str, tuple[int, int]]:
    """Placement → (forecast minus measured peak, measured peak minus persistent state), in bytes."""
    options = composed(*overrides)
    controls = controls_of(options)
    chains = load_family(controls.model).chains
    fake = FakeStep(controls, CPU, record_routing(build_training_step(controls, CPU)))
    texts = [entry.text for entry in generate_placements(options["placements"], chains(fake.step.model))]
    wiring = fake.wiring(
        sorted({u for text in texts for region in parse_placement(text).regions for u in region.units})
    )
    bench = Bench(controls, CPU, texts)
    bench.step.run()
    bench.keep_state()
    rehearsals = Rehearsals()
    found: dict[str, tuple[int, int]] = {}
    for text in texts:
        with fake.entered():
            log = record_fake_step(fake.step, text, wiring, model="tiny", workspace=rehearsals)
        bench.restore_state()
        with bench.placed(text):
            measured = measure_memory(bench.step.run, bench.persistent_tensors, CPU)
        assert log.persistent_bytes == measured.persistent_bytes
        found[text] = (log.peak()[0] - measured.peak_bytes, measured.peak_bytes - measured.persistent_bytes)
    assert rehearsals.skipped == {}
    gc.unfreeze()
    return found


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(("model=resnet50-tiny",)),
        *(
            pytest.param(names, marks=pytest.mark.slow)
            for names in (
                ("model=gpt2-tiny",),
                ("model=gpt2-tiny", "model.settings.dropout=0.1"),
                ("model=gpt2-tiny", "workload.accumulation=2"),
                ("model=t5-tiny",),
                ("model=llama-tiny",),
                ("model=llama-lora-tiny",),
                ("model=mixtral-tiny",),
                ("model=vit-tiny",),
                ("model=swin-tiny",),
                ("model=densenet-tiny",),
                ("model=unet-tiny",),
            )
        ),
    ],
    ids=" ".join,
)
def test_the_forecast_is_the_measured_peak_but_for_a_few_scalars(overrides: tuple[str, ...]) -> None:
    assert {text: error for text, (error, _) in errors(*overrides).items() if not -SCALARS <= error <= 0} == {}


@pytest.mark.slow
def test_with_routed_shapes_it_is_as_near_as_the_routing_that_was_recorded() -> None:
    found = errors("model=mixtral-tiny", "model.settings.routed=eager")
    assert {text: error for text, (error, movable) in found.items() if abs(error) > DRIFT * movable} == {}


@pytest.mark.slow
def test_seventy_billion_parameters_are_forecast_without_their_memory() -> None:
    # Parameters are 282 GB in fp32; gradients and AdamW's two moments as much again each.
    options = composed("model=llama-70b")
    controls = controls_of(options)
    fake = FakeStep(controls, CPU)
    units = load_family(controls.model).chains(fake.step.model)[0].units
    parameters = sum(parameter.nbytes for parameter in fake.step.model.parameters())
    assert parameters == 4 * 70_553_706_496
    every_block = f"model.layers.0..{len(units) - 1}:each"
    peaks = {}
    for text in ("none", every_block):
        with fake.entered():
            log = record_fake_step(fake.step, text, None, model="llama-70b")
        assert log.persistent_bytes - 3 * parameters < 2**20
        peaks[text] = log.peak()[0]
    assert peaks["none"] > peaks[every_block] > 4 * parameters
