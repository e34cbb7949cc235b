"""Numbers as a reader sees them: units chosen once for a whole table or axis, digits decided by the interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from bench.explain.words import SIZES
from bench.frontier.types import Interval, Trial, relative_width

ABSENT = "–"
"""What stands where nothing was measured."""

RATIO_DECIMALS_MAX = 4
WIDE_SHARE = 0.3
"""An interval with a longer arm than this share of its ratio is shown by its ends."""
SMALLEST_ERROR = 0.01
"""Percent; smaller errors of a forecast are shown as below it."""
TIME_SIZES = (("µs", 1e-3), ("ms", 1.0), ("s", 1e3))


@dataclass(frozen=True)
class Unit:
    name: str
    size: float
    """Bytes, or milliseconds, in one unit."""
    decimals: int
    """Decimals that show four digits of the largest value."""

    def of(self, value: float) -> float:
        return value / self.size

    def text(self, value: float | None) -> str:
        return ABSENT if value is None else f"{self.of(value):.{self.decimals}f}"


def memory_unit(num_bytes: Iterable[float | None]) -> Unit:
    """The smallest binary unit in which the largest value stays below 10,000."""
    largest = max((abs(value) for value in num_bytes if value is not None), default=0)
    name, size = next((unit for unit in SIZES if largest < 10_000 * unit[1]), SIZES[-1])
    return Unit(name, size, 0 if size == 1 else _four_digits(largest / size))


def time_unit(times_ms: Iterable[float | None]) -> Unit:
    """The largest of µs, ms and s in which the largest value is at least 1."""
    largest = max((value for value in times_ms if value is not None), default=0.0)
    name, size = next((unit for unit in reversed(TIME_SIZES) if largest >= unit[1]), TIME_SIZES[1])
    return Unit(name, size, _four_digits(largest / size))


def _four_digits(value: float) -> int:
    return 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3


def supported_decimals(uncertainty: float) -> int:
    """Decimals at which `uncertainty` has one digit, or two where the first is a 1 (the Particle Data Group's rule)."""
    if uncertainty <= 0:
        return RATIO_DECIMALS_MAX
    exponent = math.floor(math.log10(uncertainty))
    leading = uncertainty / 10.0**exponent
    return min(max(-exponent + (leading < 1.95), 0), RATIO_DECIMALS_MAX)


def ratio_text(ratio: float | None, interval: Interval | None, is_reference: bool = False) -> str:
    """`×1.18 ± 0.02`; the reference is `×1`; without an interval `×1.2 ± ?`; a wide one `×1.2 (0.8–1.9)`."""
    if ratio is None:
        return ABSENT
    if is_reference:
        return "×1"
    if interval is None:
        return f"×{_two_digits(ratio)} ± ?"
    width = max(interval.arm(ratio), 10.0**-RATIO_DECIMALS_MAX)
    if width > WIDE_SHARE * ratio:  # so wide that its two arms are no longer alike
        return f"×{_two_digits(ratio)} ({_two_digits(interval.low)}–{_two_digits(interval.high)})"
    decimals = supported_decimals(width)
    return f"×{ratio:.{decimals}f} ± {width:.{decimals}f}"


def _two_digits(value: float) -> str:
    return f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def typical_width(trials: Iterable[Trial]) -> float | None:
    """The median relative width of their time ratios: stands in for the reference, whose own ratio has none."""
    widths = [relative_width(trial.time_ratio, trial.time_ratio_interval) for trial in trials]
    known = [width for width in widths if width]
    return statistics.median(known) if known else None


def time_text(time_ms: float | None, unit: Unit, uncertainty_share: float | None) -> str:
    """A step time with the digits that its relative uncertainty supports; two digits where that is unknown."""
    if time_ms is None:
        return ABSENT
    value = unit.of(time_ms)
    uncertainty = value * (uncertainty_share if uncertainty_share else 0.05)
    return f"{value:.{min(supported_decimals(uncertainty), unit.decimals)}f}"


def error_text(share: float | None) -> str:
    """`+0.3 %`, with two digits below 0.1 %; `exact` where nothing is off."""
    if share is None:
        return ABSENT
    if share == 0:
        return "exact"
    percent = 100 * share
    if abs(percent) < SMALLEST_ERROR:
        return f"< {SMALLEST_ERROR} %"
    return f"{percent:+.{1 if abs(percent) >= 0.1 else 2}f} %"


def share_text(share: float | None, decimals: int = 1) -> str:
    return ABSENT if share is None else f"{100 * share:.{decimals}f} %"


def percent_text(share: float | None) -> str:
    """`+6.3 %`, `-12 %`: a difference, with one decimal below 10 %."""
    return ABSENT if share is None else f"{100 * share:+.{1 if abs(share) < 0.0995 else 0}f} %"
