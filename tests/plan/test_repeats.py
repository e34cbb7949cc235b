"""Equal blocks are tried once: what is said of the others is what trying them says."""

from __future__ import annotations

import pytest
from torch import nn

from bench.placement.types import Placement
from bench.spec import ChainInfo
from tests.plan.planning import Blocks, Mlp, Subject, toy, zoo

SEVEN = ChainInfo(name="blocks", units=tuple(f"blocks.{number}" for number in range(7)))


def seven(*, num_batches: int = 1) -> Subject:
    return toy(lambda: Blocks([Mlp(16, 64) for _ in range(7)]), 8, 16, chains=[SEVEN], num_batches=num_batches)


def test_equal_blocks_are_one_run_but_the_first_whose_input_has_no_gradient() -> None:
    (run,) = seven().runs
    assert run.units == SEVEN.units[1:]


def test_one_block_that_differs_parts_a_run() -> None:
    def build() -> nn.Module:
        return Blocks([Mlp(16, 32 if number == 1 else 64) for number in range(7)])

    (run,) = toy(build, 8, 16, chains=[SEVEN]).runs
    assert run.units == SEVEN.units[2:]


def test_few_equal_blocks_are_no_run() -> None:
    short = ChainInfo(name="blocks", units=SEVEN.units[:4])
    assert toy(lambda: Blocks([Mlp(16, 64) for _ in range(4)]), 8, 16, chains=[short]).runs == []


def test_units_at_an_end_of_a_run_stand_for_themselves() -> None:
    (run,) = seven().runs
    assert run.place_of(("blocks.1",)) is None
    assert run.place_of(("blocks.5", "blocks.6")) is None
    assert run.place_of(("blocks.2.act",)) == (1, 1)
    assert run.renamed("blocks.2.act", 2) == "blocks.4.act"


@pytest.mark.parametrize("num_batches", [1, 2])
def test_what_is_said_of_an_equal_block_is_what_trying_it_says(num_batches: int) -> None:
    assert_options_are_exact(seven(num_batches=num_batches))


@pytest.mark.parametrize(
    "overrides", [("model.settings.layers=7",), ("model.settings.layers=8", "workload.accumulation=2")]
)
def test_what_is_said_of_a_block_of_gpt2_is_what_trying_it_says(overrides: tuple[str, ...]) -> None:
    subject = zoo("gpt2-tiny", *overrides)
    assert subject.runs
    assert_options_are_exact(subject)


def test_what_is_said_of_a_block_with_frozen_weights_is_what_trying_it_says() -> None:
    assert_options_are_exact(zoo("llama-lora-tiny", "model.settings.layers=7"))


def assert_options_are_exact(subject: Subject) -> None:
    for option in subject.options:
        tried = subject.tried(*option.regions)
        assert (option.change.line(len(tried.line)) == tried.line - subject.trials.plain).all(), Placement(
            option.regions
        )
        assert option.cost_ms == pytest.approx(tried.cost_ms)
        for keep in option.keeps:
            kept = subject.tried(*option.keeping([keep]))
            assert (keep.change.line(len(kept.line)) == kept.line - tried.line).all(), Placement(option.regions)
            assert keep.saved_ms == pytest.approx(tried.ops_ms - kept.ops_ms)
