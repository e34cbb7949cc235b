"""The search against brute force, in worlds where only peaks and forecasts are made up."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from bench.capacity.search import Ask, Done, Known, Search, Try, next_step
from bench.capacity.sizes import Sizes, divisors_of
from bench.capacity.types import (
    AT_BOUND,
    DATA_ENDS,
    DOES_NOT_FIT,
    FAILED,
    FITS,
    NO_PROOF,
    NONE_FITS,
    NOT_TRIED,
    SETTLED,
)

Forecast = Callable[[int], int | None]
MANY_STEPS = 2000


@dataclass(frozen=True)
class World:
    """Peaks by the index of a size; outcomes that are no matter of memory stand in for a peak."""

    sizes: Sizes
    peaks: Sequence[int | str]
    limit: int

    def probe(self, size: int, tells_peaks: bool = True) -> Known:
        found = self.peaks[self.sizes.at_most(size)]
        if isinstance(found, str):
            return Known(outcome=found)
        if found <= self.limit:
            return Known(outcome=FITS, peak_bytes=found)
        return Known(outcome=DOES_NOT_FIT, peak_bytes=found if tells_peaks else None)

    def exact(self, size: int) -> int | None:
        peak = self.peaks[self.sizes.at_most(size)]
        return peak if isinstance(peak, int) else None


@dataclass(frozen=True)
class Found:
    done: Done
    probed: dict[int, Known]
    num_asked: int


def world_of(peaks: Sequence[int | str], limit: int = 1000, multiple: int = 1) -> World:
    return World(Sizes(multiple=multiple, largest=multiple * len(peaks)), peaks, limit)


def find(world: World, start: int, forecast: Forecast | None, tells_peaks: bool = True) -> Found:
    expected: dict[int, int | None] = {}
    probed: dict[int, Known] = {}
    for _ in range(MANY_STEPS):
        step = next_step(
            Search(sizes=world.sizes, start=start, limit_bytes=world.limit, expected=expected, probed=probed)
        )
        if isinstance(step, Done):
            return Found(step, probed, len(expected))
        if isinstance(step, Ask):
            assert not set(step.sizes) & expected.keys(), "a forecast is asked for twice"
            expected |= {size: None if forecast is None else forecast(size) for size in step.sizes}
        else:
            assert isinstance(step, Try)
            assert step.size not in probed, "a size is probed twice"
            probed[step.size] = world.probe(step.size, tells_peaks)
    raise AssertionError("the search does not end")


def brute_force(world: World) -> int | None:
    fits = [world.sizes[i] for i in range(world.sizes.count) if world.probe(world.sizes[i]).outcome == FITS]
    return max(fits, default=None)


growing = st.lists(st.integers(0, 60), min_size=1, max_size=80).map(
    lambda steps: [100 + sum(steps[: index + 1]) for index in range(len(steps))]
)
shares = st.floats(0.5, 2.0)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, int]:
    peaks = draw(growing)
    world = world_of(peaks, draw(st.integers(50, 2500)), draw(st.sampled_from([1, 8, 64])))
    return world, draw(st.integers(1, world.sizes.largest))


@settings(max_examples=1500, deadline=None)
@given(worlds(), shares, st.randoms(use_true_random=False), st.booleans())
def test_the_answer_is_brute_forces_whatever_the_forecasts(
    world_and_start: tuple[World, int], share: float, rng: random.Random, tells_peaks: bool
) -> None:
    world, start = world_and_start

    def forecast(size: int) -> int | None:
        exact = world.exact(size)
        return None if exact is None or rng.random() < 0.1 else int(exact * share * rng.uniform(0.9, 1.1))

    found = find(world, start, forecast, tells_peaks)
    assert found.done.largest == brute_force(world)


@settings(max_examples=500, deadline=None)
@given(worlds(), st.booleans())
def test_the_answer_is_brute_forces_without_forecasts(world_and_start: tuple[World, int], tells_peaks: bool) -> None:
    world, start = world_and_start
    assert find(world, start, None, tells_peaks).done.largest == brute_force(world)


@settings(max_examples=1000, deadline=None)
@given(worlds(), st.lists(st.integers(-80, 80), min_size=80, max_size=80), st.booleans())
def test_of_peaks_that_go_up_and_down_a_size_that_ran_is_claimed_and_the_next_was_tried(
    world_and_start: tuple[World, int], bumps: list[int], tells_peaks: bool
) -> None:
    smooth, start = world_and_start
    peaks = [peak + bump for peak, bump in zip(smooth.peaks, bumps, strict=False) if isinstance(peak, int)]
    world = World(smooth.sizes, peaks, smooth.limit)
    found = find(world, start, smooth.exact, tells_peaks)
    if found.done.largest is None:
        assert world.probe(world.sizes[0]).outcome == DOES_NOT_FIT
        return
    assert found.probed[found.done.largest].outcome == FITS
    index = world.sizes.at_most(found.done.largest)
    if index + 1 < world.sizes.count:
        assert found.probed[world.sizes[index + 1]].outcome == DOES_NOT_FIT


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_an_exact_forecast_needs_two_probes_at_most(world_and_start: tuple[World, int]) -> None:
    world, start = world_and_start
    assert len(find(world, start, world.exact).probed) <= 2


def steps_like_training(rng: random.Random) -> tuple[World, int]:
    """Persistent state, a flat part while backward's end is the peak, then a line: up to some hundred sizes."""
    persistent, slope, flat = rng.randint(200, 2000), rng.uniform(1, 300), rng.uniform(0, 600)
    peaks = [int(persistent + max(flat, slope * (index + 1))) for index in range(2000)]
    return world_of(peaks, persistent + rng.randint(100, 6000)), rng.randint(1, 16)


@pytest.mark.parametrize("tells_peaks", [True, False])
@pytest.mark.parametrize("off", ["by a share", "at random"])
def test_forecasts_that_are_off_by_two_percent_need_four_probes_on_average(off: str, tells_peaks: bool) -> None:
    rng = random.Random(f"{off} {tells_peaks}")
    counts = []
    for _ in range(1000):
        world, start = steps_like_training(rng)
        share = rng.choice([0.98, 1.02])

        def forecast(size: int, world: World = world, share: float = share) -> int | None:
            exact = world.exact(size)
            return None if exact is None else int(exact * (share if off == "by a share" else rng.uniform(0.98, 1.02)))

        found = find(world, start, forecast, tells_peaks)
        assert found.done.largest == brute_force(world)
        counts.append(len(found.probed))
    assert statistics.fmean(counts) <= 4, counts


def test_forecasts_come_before_probes_and_confirm_the_very_size_and_the_next() -> None:
    world = world_of([100 * (i + 1) for i in range(100)], limit=1050)
    found = find(world, 2, world.exact)
    assert found.done == Done(ended=SETTLED, largest=10, next_size=11)
    assert list(found.probed) == [10, 11]
    assert found.num_asked <= 4  # 2 and 4 make the line, 10 and 11 confirm it


def test_without_forecasts_sizes_at_most_double() -> None:
    world = world_of([10 * (i + 1) for i in range(300)], limit=1234)
    found = find(world, 2, None)
    sizes = list(found.probed)
    best = 0
    for size in sizes:
        assert size <= max(2, 2 * best)
        best = max(best, size) if found.probed[size].outcome == FITS else best
    assert found.done.largest == 123


@pytest.mark.parametrize(
    ("peaks", "start", "ended", "largest"),
    [
        ([900, 1000, 1001], 1, SETTLED, 2),
        ([1001, 1100], 1, NONE_FITS, None),
        ([1001, 1100, 1200, 1300], 3, NONE_FITS, None),
        ([100, 200, 300], 1, AT_BOUND, 3),
        ([100, 200, DATA_ENDS, DATA_ENDS], 1, DATA_ENDS, 2),
        ([100, 200, 300, *["error"] * 30], 2, FAILED, 3),
        (["error"] * 8, 3, FAILED, None),
        ([DATA_ENDS] * 4, 2, FAILED, None),
        ([100, 200, *[NOT_TRIED] * 30], 1, NO_PROOF, 2),
        ([NOT_TRIED, NOT_TRIED], 1, NO_PROOF, None),
        ([100, 200, *["crashed"] * 30], 1, FAILED, 2),
        (["no-step"] * 3, 2, FAILED, None),
    ],
)
def test_how_a_search_ends(peaks: list[int | str], start: int, ended: str, largest: int | None) -> None:
    for forecast in (None, lambda size: 100 * size):
        done = find(world_of(peaks), start, forecast).done
        assert done.ended == ended
        assert done.largest == largest


def test_an_error_at_a_large_size_is_tried_at_the_start_before_it_is_believed() -> None:
    found = find(world_of([100, 110, 120, *["error"] * 40]), 2, lambda size: 90 + 10 * size)
    assert found.done == Done(ended=FAILED, largest=3, next_size=4)
    assert list(found.probed)[1] == 2


def test_once_something_fits_no_size_is_tried_after_one_that_hung() -> None:
    found = find(world_of([100, 200, *["hung"] * 30]), 1, lambda size: 100 * size)
    assert list(found.probed) == [10, 1]
    assert found.done == Done(ended=FAILED, largest=1, next_size=10)


def test_an_error_at_the_start_ends_the_search_at_once() -> None:
    found = find(world_of(["error"] * 50), 4, None)
    assert list(found.probed) == [4]


def test_a_larger_size_that_fits_though_a_smaller_does_not_is_the_answer() -> None:
    search = Search(
        sizes=Sizes(multiple=1, largest=10),
        start=1,
        limit_bytes=1000,
        expected={},
        probed={
            4: Known(outcome=DOES_NOT_FIT, peak_bytes=1100),
            5: Known(outcome=FITS, peak_bytes=990),
            6: Known(outcome=DOES_NOT_FIT, peak_bytes=1200),
        },
    )
    assert next_step(search) == Done(ended=SETTLED, largest=5, next_size=6)


def test_sizes_of_a_global_batch_are_its_divisors() -> None:
    sizes = Sizes(multiple=1, largest=24, divisors=divisors_of(24))
    assert [sizes[i] for i in range(sizes.count)] == [1, 2, 3, 4, 6, 8, 12, 24]
    assert [sizes.at_most(size) for size in (0, 1, 5, 7.9, 100)] == [-1, 0, 3, 4, 7]
    assert sizes.has(6)
    assert not sizes.has(5)
    world = World(sizes, [100 * sizes[i] for i in range(sizes.count)], 1000)
    assert find(world, 2, world.exact).done == Done(ended=SETTLED, largest=8, next_size=12)


def test_sizes_are_multiples_up_to_the_bound() -> None:
    sizes = Sizes(multiple=64, largest=1000)
    assert (sizes.count, sizes[0], sizes[14]) == (15, 64, 960)
    assert (sizes.at_most(63), sizes.at_most(64), sizes.at_most(5000)) == (-1, 0, 14)
    assert not sizes.has(1000)
    with pytest.raises(IndexError, match="size 15 of 15"):
        sizes[15]


def test_a_fault_below_a_size_that_fits_unsettles_nothing() -> None:
    known = {12: Known(outcome="leaking"), 15: Known(outcome=FITS), 16: Known(outcome=DOES_NOT_FIT)}
    search = Search(sizes=Sizes(multiple=1, largest=64), start=4, limit_bytes=1000, expected={}, probed=known)
    step = next_step(search)
    assert isinstance(step, Done)
    assert (step.ended, step.largest) == (SETTLED, 15)
