"""Categories of a step that was worked out are those of the same step run on fake tensors."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.placement import parse_placement
from bench.records.timeline import Timeline
from bench.trace.categories import BOUNDARY, GRADIENTS, SAVED
from bench.trace.compact import StepMemory, compact
from bench.trace.forecast import Forecaster
from bench.trace.step_memory import memory_of_log, memory_of_rearranged
from tests.trace.test_rearrange import Chain, Mlp, Twice, forecaster

PLACEMENTS = (
    "none",
    "blocks.0",
    "blocks.3",
    "blocks.0..3:each",
    "blocks.0..3",
    "blocks.0..1+blocks.2..3",
    "blocks.0..1+blocks.0..3:each+blocks.2..3",
    "blocks.0..3+blocks.0..1+blocks.0",
    "blocks.1+blocks.1.up+blocks.1.down",
    "blocks.0..3:each:keep.matmul",
    "blocks.0..3+blocks.1:keep.matmul",
    "blocks.0..3:each@no-rng",
    "blocks.0..3:each@no-early-stop",
)


@pytest.fixture(scope="module")
def mlps() -> Forecaster:
    return forecaster(lambda: Chain([Mlp() for _ in range(4)]))


def both(toy: Forecaster, text: str) -> tuple[StepMemory, StepMemory]:
    placement = parse_placement(text)
    found = toy.rearranged(placement)
    fast = memory_of_rearranged(found, toy.plain_recording, toy.rearranger.script, placement)
    return fast, memory_of_log(toy.by_fake_step(text)[1])


def made(memory: StepMemory) -> Counter[tuple[str, int, bool, str, str]]:
    """Of each kind of block that the step makes, how many."""
    born = {event - 1 for event in memory.events if event > 0}
    return Counter(
        (memory.categories[s], memory.sizes[s], memory.is_remade[s], *memory.made_by[s]) for s in sorted(born)
    )


def at_peak(timeline: Timeline) -> dict[str, int]:
    series = timeline.by_category.items()
    found = {name: one[timeline.peak_point if len(one) > 1 else 0] for name, one in series}
    return {name: size for name, size in found.items() if size}


@pytest.mark.parametrize("text", PLACEMENTS)
def test_every_block_has_the_category_that_it_has_in_a_step_that_was_run(mlps: Forecaster, text: str) -> None:
    fast, run = both(mlps, text)
    assert made(fast) == made(run)


@pytest.mark.parametrize("text", PLACEMENTS)
def test_timelines_of_both_ways_agree_at_the_peak_and_on_what_reached_it(mlps: Forecaster, text: str) -> None:
    fast, run = map(compact, both(mlps, text))
    assert fast.peak_bytes == run.peak_bytes == mlps.fast(text).peak_allocated_bytes
    assert at_peak(fast) == at_peak(run)
    assert (fast.peak_op, fast.peak_module, fast.peak_in_replay) == (run.peak_op, run.peak_module, run.peak_in_replay)
    assert [(p.phase, p.peak_bytes) for p in fast.phases] == [(p.phase, p.peak_bytes) for p in run.phases]


def test_a_gradient_that_is_a_sum_is_a_gradient() -> None:
    """A weight used twice: its gradient is added up in the block of the first part."""
    toy = forecaster(Twice)
    for text in ("none", "block"):
        fast, run = both(toy, text)
        assert made(fast) == made(run), text
        num_gradients = sum(number for kind, number in made(fast).items() if kind[0] == GRADIENTS)
        assert num_gradients == len(list(toy.model.parameters()))


def test_a_checkpointed_step_holds_boundaries_where_the_plain_one_holds_what_is_saved(mlps: Forecaster) -> None:
    def largest(text: str, category: str) -> int:
        return max(compact(both(mlps, text)[0]).by_category.get(category, (0,)))

    assert largest("none", BOUNDARY) == 0
    assert largest("blocks.0..3:each", BOUNDARY) > 0
    assert largest("blocks.0..3:each", SAVED) < largest("none", SAVED)


def test_every_placement_makes_the_same_blocks_outside_replays(mlps: Forecaster) -> None:
    """What timelines are aligned by."""
    ends = {text: compact(both(mlps, text)[0]).made[-1] for text in PLACEMENTS}
    assert len(set(ends.values())) == 1
    assert compact(both(mlps, "none")[0]).remade[-1] == 0
    assert compact(both(mlps, "blocks.0..3:each")[0]).remade[-1] > 0
