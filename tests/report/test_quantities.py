"""Units are chosen once; the interval decides the digits."""

from __future__ import annotations

import pytest

from bench.frontier.types import Interval
from bench.report.quantities import (
    memory_unit,
    ratio_text,
    share_text,
    supported_decimals,
    time_text,
    time_unit,
)


@pytest.mark.parametrize(
    ("ratio", "half_width", "text"),
    [
        (1.1823, 0.021, "×1.18 ± 0.02"),
        (1.1823, 0.0135, "×1.182 ± 0.014"),
        (1.1823, 0.0031, "×1.182 ± 0.003"),
        (1.1823, 0.3, "×1.2 ± 0.3"),
        (1.1823, 0.098, "×1.18 ± 0.10"),
        (1.1823, 0.0, "×1.1823 ± 0.0001"),
        (12.4, 3.2, "×12 ± 3"),
    ],
)
def test_ratio_has_the_digits_that_its_interval_supports(ratio: float, half_width: float, text: str) -> None:
    assert ratio_text(ratio, Interval(low=ratio - half_width, high=ratio + half_width)) == text


def test_ratio_takes_the_longer_arm_of_a_lopsided_interval() -> None:
    assert ratio_text(1.2, Interval(low=1.19, high=1.24)) == "×1.20 ± 0.04"


def test_reference_is_exactly_one_and_a_ratio_without_interval_says_so() -> None:
    assert ratio_text(1.0, Interval(low=1.0, high=1.0), is_reference=True) == "×1"
    assert ratio_text(1.234, None) == "×1.2 ± ?"
    assert ratio_text(62.18, None) == "×62 ± ?"


def test_an_interval_as_wide_as_its_ratio_is_shown_by_its_ends() -> None:
    assert ratio_text(1.18, Interval(low=0.287, high=4.06)) == "×1.2 (0.29–4.1)"
    assert ratio_text(0.4, Interval(low=0.013, high=38.0)) == "×0.40 (0.013–38)"


def test_unmeasured_is_absent_never_zero() -> None:
    assert ratio_text(None, None) == "–"
    assert share_text(None) == "–"
    assert memory_unit([1]).text(None) == "–"
    assert time_text(None, time_unit([1.0]), None) == "–"


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        ([3236 * 2**20, 2390 * 2**20], "3236 MiB"),
        ([14_262 * 2**20], "13.93 GiB"),
        ([9_999], "9999 B"),
        ([10_240], "10.00 KiB"),
        ([None, 900 * 2**20], "900.0 MiB"),
    ],
)
def test_memory_unit_shows_four_digits_of_the_largest(num_bytes: list[int | None], text: str) -> None:
    unit = memory_unit(num_bytes)
    largest = max(value for value in num_bytes if value is not None)
    assert f"{unit.text(largest)} {unit.name}" == text


@pytest.mark.parametrize(("time_ms", "name"), [(4930.0, "s"), (1000.0, "s"), (999.0, "ms"), (0.5, "µs"), (0.0, "ms")])
def test_time_unit_is_the_largest_that_the_slowest_fills(time_ms: float, name: str) -> None:
    assert time_unit([time_ms, time_ms / 10]).name == name


def test_nothing_measured_still_has_units() -> None:
    assert (memory_unit([]).name, time_unit([]).name) == ("B", "ms")


def test_step_time_has_the_digits_that_its_interval_supports() -> None:
    unit = time_unit([4930.0])
    assert time_text(4930.0, unit, 0.02) == "4.93"
    assert time_text(4930.0, unit, 0.08) == "4.9"
    assert time_text(4930.0, unit, None) == "4.9"


def test_supported_decimals_follow_the_leading_digit() -> None:
    assert [supported_decimals(u) for u in (0.2, 0.1, 0.02, 0.019, 5.0, 50.0, 1e-9)] == [1, 2, 2, 3, 0, 0, 4]
