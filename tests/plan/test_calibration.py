"""What is run to correct costs: placements in which each part of a replay weighs most."""

from __future__ import annotations

import pytest

from bench.plan.calibration import SMALL_REGIONS, drafts, small_regions
from bench.plan.costs import counted_costs
from bench.plan.planner import Planner
from tests.plan.planning import zoo


@pytest.mark.parametrize("model", ["gpt2-tiny", "resnet50-tiny", "unet-tiny"])
def test_small_regions_are_many_and_repeat_little_work(model: str) -> None:
    subject = zoo(model)
    log = subject.forecaster.plain_log
    found = small_regions(log, subject.chains)
    rearranged = subject.forecaster.rearranged(found)
    assert 8 <= len(found.regions) <= SMALL_REGIONS
    assert rearranged.num_replays >= len(found.regions) // 2
    assert not any(log.ops[index].flops for index in rearranged.replayed)
    assert not any(log.ops[index].name.endswith("_") for index in rearranged.replayed)


def test_small_regions_are_spread_over_the_model() -> None:
    subject = zoo("gpt2-tiny")
    every, few = (small_regions(subject.forecaster.plain_log, subject.chains, count) for count in (100, 4))
    assert len(few.regions) <= 4 < len(every.regions)
    blocks = {region.units[0].split(".")[2] for region in few.regions}
    assert len(blocks) > 1


def test_a_model_without_such_modules_has_none() -> None:
    subject = zoo("gpt2-tiny")
    assert small_regions(subject.forecaster.plain_log, ()).regions == ()


def test_drafts_are_the_floor_and_plans_above_it_without_the_options_that_finishing_gave() -> None:
    subject = zoo("gpt2-tiny")
    planner = Planner(
        subject.forecaster,
        subject.chains,
        counted_costs(subject.forecaster.plain_log),
        finish=lambda placement: placement.restored(),
    )
    found = drafts(planner)
    assert found[0] == planner.floor().placement.unrestored()
    peaks = [subject.forecaster.forecast(placement.restored()).peak_allocated_bytes for placement in found]
    assert len(found) == 3
    assert peaks == sorted(set(peaks))
    assert peaks[-1] < planner.plain.forecast.peak_allocated_bytes
