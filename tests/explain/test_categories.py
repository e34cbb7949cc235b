"""Everything alive at the peak has one category, and they add up to the byte: by hand on a toy, and on the zoo."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.entry import config_folder
from bench.cli.request import controls_of
from bench.cli.resolvers import register_resolvers
from bench.explain import at_peak, compare, explain, read
from bench.placement import generate_placements
from bench.step import build_training_step
from bench.trace.categories import (
    BOUNDARY,
    CATEGORIES,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATES,
    OTHER,
    PARAMETERS,
    RANDOM_STATE,
    SAVED,
    TEMPORARY,
    WORKSPACES,
    CategoriesDoNotAddUpError,
    category_of,
)
from bench.trace.log import StepLog
from bench.trace.record import record_real_step
from bench.worker.bench import Bench
from tests.explain.toys import Block, Blocks, make_step, measured_peak, record
from tests.trace.toys import CPU

ROWS, WIDTH, INNER = 64, 32, 128
NARROW, WIDE, WEIGHT = 4 * ROWS * WIDTH, 4 * ROWS * INNER, 4 * WIDTH * INNER
SCALAR, RNG = 4, 5056
FAMILIES = ("densenet", "gpt2", "llama", "llama-lora", "mixtral", "resnet50", "swin", "t5", "unet", "vit")


def shares(log: StepLog) -> dict[str, int]:
    return {one.category: one.bytes for one in at_peak(log).categories if one.bytes}


# Both blocks have two weights; the batch is NARROW. A running loss and the loss itself are scalars, and so is the
# gradient that backward begins with. At every one of these peaks `threshold_backward` has just made the ReLU's input
# gradient (WIDE), beside its output's gradient (WIDE) and the saved output of the ReLU (WIDE).
EXPECTED = {
    # In block 1, which runs backward first: block 0's ReLU output and what it handed to block 1 are still saved.
    "none": {
        PARAMETERS: 4 * WEIGHT,
        INPUTS: NARROW,
        GRADIENTS: WEIGHT,
        OTHER: SCALAR,
        SAVED: 2 * WIDE + NARROW + SCALAR,
        TEMPORARY: 2 * WIDE + SCALAR,
    },
    # In block 0, when three gradients are there: its replay has rebuilt its own ReLU output. What it handed to block 1
    # is gone with block 1, and its own boundary is the batch.
    "blocks.0..1:each": {
        PARAMETERS: 4 * WEIGHT,
        INPUTS: NARROW,
        GRADIENTS: 3 * WEIGHT,
        OTHER: SCALAR,
        RANDOM_STATE: RNG,
        SAVED: WIDE + SCALAR,
        TEMPORARY: 2 * WIDE + SCALAR,
    },
    # As without regions, with the one random state: the replay rebuilds both blocks before any backward.
    "blocks.0..1": {
        PARAMETERS: 4 * WEIGHT,
        INPUTS: NARROW,
        GRADIENTS: WEIGHT,
        OTHER: SCALAR,
        RANDOM_STATE: RNG,
        SAVED: 2 * WIDE + NARROW + SCALAR,
        TEMPORARY: 2 * WIDE + SCALAR,
    },
    # Block 1 alone is replayed: what it is given is its boundary.
    "blocks.1": {
        PARAMETERS: 4 * WEIGHT,
        INPUTS: NARROW,
        GRADIENTS: WEIGHT,
        OTHER: SCALAR,
        RANDOM_STATE: RNG,
        BOUNDARY: NARROW,
        SAVED: 2 * WIDE + SCALAR,
        TEMPORARY: 2 * WIDE + SCALAR,
    },
}


@pytest.mark.parametrize("placement", EXPECTED)
def test_categories_at_the_peak_are_those_counted_by_hand(placement: str) -> None:
    step = make_step(Blocks(Block(WIDTH, INNER), Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH))
    log = record(step, placement)
    assert shares(log) == EXPECTED[placement]
    assert sum(EXPECTED[placement].values()) == log.peak()[0] == measured_peak(step, placement)


def test_a_plain_step_has_no_boundary_and_no_random_state() -> None:
    log = record(make_step(Blocks(Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH)))
    assert {BOUNDARY, RANDOM_STATE}.isdisjoint(category_of(log))


def test_temporaries_of_the_optimizer_are_told_from_its_state() -> None:
    model = Blocks(Block(WIDTH, INNER))
    step = make_step(model, torch.randn(4, WIDTH), make_optimizer=lambda p: torch.optim.AdamW(p, foreach=True))
    found = shares(record(step))
    # Two moments a weight and a step count a parameter; at the peak the denominator of each parameter.
    assert found[OPTIMIZER_STATES] == 2 * (2 * WEIGHT) + 2 * SCALAR
    assert found[TEMPORARY] == 2 * WEIGHT
    assert SAVED not in found


def test_memory_that_only_a_kernel_saw_is_a_workspace() -> None:
    torch.manual_seed(0)
    model = torch.nn.Conv2d(8, 8, 3, padding=1, bias=False)
    log = record(make_step(model, torch.randn(4, 8, 16, 16)))
    kinds = category_of(log)
    for index, storage in enumerate(log.storages):
        is_seen = any(index in (*op.reads, *op.writes) for op in log.ops)
        if kinds[index] == WORKSPACES:
            assert storage.shape is None
            assert not is_seen
        elif storage.op >= 0:
            assert storage.shape is not None or is_seen


def test_a_log_whose_events_do_not_fit_its_storages_is_refused() -> None:
    log = record(make_step(Blocks(Block(WIDTH, INNER)), torch.randn(ROWS, WIDTH)))
    broken = dataclasses.replace(log, storages=tuple(dataclasses.replace(s, death=None) for s in log.storages))
    with pytest.raises(CategoriesDoNotAddUpError, match="the log's events do not fit its storages"):
        at_peak(broken)


@pytest.fixture(scope="module")
def _configs() -> Iterator[None]:
    register_resolvers()
    with initialize_config_dir(str(Path(config_folder())), version_base="1.3"):
        yield


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("_configs")
def test_the_zoo_adds_up_and_no_placement_saves_more_than_is_said(family: str) -> None:
    options = OmegaConf.to_container(compose("sweep", [f"model={family}-tiny", "device=cpu"]), resolve=True)
    assert isinstance(options, dict)
    controls = controls_of({str(key): value for key, value in options.items()})
    step = build_training_step(controls, CPU)
    chains = step.family.chains(step.model)
    texts = [entry.text for entry in generate_placements(options["placements"], chains)]
    bench = Bench(controls, CPU, texts, step)
    bench.step.run()
    bench.keep_state()
    logs: dict[str, StepLog] = {}
    for text in texts:
        bench.restore_state()
        logs[text] = record_real_step(bench.step, text, bench.wiring, model=family)
    plain = explain(read(logs["none"], chains))
    assert len(texts) >= 4
    for log in logs.values():
        explanation = explain(read(log, chains))
        assert [one.category for one in explanation.categories] == list(CATEGORIES)
        assert sum(one.bytes for one in explanation.categories) == log.peak()[0]
        assert sum(row.bytes for row in explanation.modules if row.depth == 0) == log.peak()[0]
        assert sum(group.bytes for group in explanation.groups) == log.peak()[0]
        assert explanation.bytes_of(PARAMETERS) == plain.bytes_of(PARAMETERS)
        assert plain.peak_bytes - explanation.peak_bytes <= plain.removable_bytes
        difference = compare(logs["none"], log, chains)
        assert difference.second_peak_bytes == log.peak()[0]
        assert difference.gone.bytes - difference.new.bytes == plain.peak_bytes - explanation.peak_bytes
