"""When rounds may end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.stats import StoppingRule, stop_reason

RULE = StoppingRule(target_half_width=0.01, rounds_min=3, rounds_max=99)


def history(widths: Sequence[float | None]) -> list[dict[str, float | None]]:
    return [{"a": width} for width in widths]


@pytest.mark.parametrize(
    ("widths", "reason"),
    [
        ([None, None, 0.005], None),  # the first tight round may be luck
        ([None, None, 0.005, 0.006], "tight"),
        ([None, None, 0.005, 0.02], None),
        ([0.005, 0.005], None),  # fewer than rounds_min
        ([0.02] * 63, None),  # too soon to say that it does not shrink
        ([0.02] * 64, "not getting tighter"),
        ([0.02] * 32 + [0.0188] * 32, None),  # it still shrinks
        ([0.2 / (1 + n) for n in range(19)], None),
        ([0.2 - 0.0019 * n for n in range(99)], "rounds"),
    ],
)
def test_rounds_end_for_a_reason(widths: Sequence[float | None], reason: str | None) -> None:
    assert stop_reason(history(widths), RULE) == reason


def test_every_placement_must_be_tight() -> None:
    both: list[dict[str, float | None]] = [{"a": 0.001, "b": 0.02}, {"a": 0.001, "b": 0.02}]
    assert stop_reason([*both, {"a": 0.001, "b": 0.009}, {"a": 0.001, "b": 0.009}], RULE) == "tight"
    assert stop_reason(both * 2, RULE) is None


def test_one_interval_that_still_shrinks_keeps_the_rounds_going() -> None:
    history_of_both: list[dict[str, float | None]] = [{"a": 0.02, "b": 2.0 / (1 + n)} for n in range(70)]
    assert stop_reason(history_of_both, RULE) is None


def test_a_reference_alone_is_tight_at_once() -> None:
    assert stop_reason([{}, {}, {}], RULE) == "tight"
