"""The table of a comparison."""

from __future__ import annotations

import pytest

from bench.compare import Comparison, compare
from bench.report.compare_table import render_comparison
from bench.report.compare_words import explanations
from bench.report.labels import Shortening
from bench.report.terminal import plain_text
from tests.compare.studies import failed, longer_sequences, measured, published, with_torch

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 700), "blocks.0..1:each": (1.45, 500)}


def comparison() -> Comparison:
    return compare([measured(seed=1), measured(COSTLY, seed=2, controls=with_torch("2.14.0"))], "toy-vs-toy")


def text(of: Comparison, width: int = 120) -> str:
    return plain_text(render_comparison(of), width)


def row(of: str, beginning: str) -> str:
    return next(line for line in of.splitlines() if line.startswith(beginning))


def test_budgets_show_both_placements_the_ratio_and_the_verdict() -> None:
    line = row(text(comparison()), "60 % ")
    assert [word for word in ("blocks.0..1:each", "×1.3", "B", "×1.4", "± 0.0", "slower") if word not in line] == []
    assert "neither fits" in row(text(comparison()), "40 %")


def test_absolute_budgets_are_sizes_too() -> None:
    assert "slower" in row(text(comparison()), "60 % = 600 MiB")


def test_what_differs_is_one_line() -> None:
    assert "B differs from A: torch 2.13.0 → 2.14.0" in text(comparison()).splitlines()


def test_another_job_is_not_like_for_like_in_heading_and_note() -> None:
    said = text(compare([measured(seed=1), measured(seed=2, controls=longer_sequences(512))], "t"), 200)
    assert "(B: not like for like)" in said
    assert "note: B: absolute peaks and times are not like for like: sequence_length 16 → 512" in said


def test_wins_are_intervals_of_memory() -> None:
    said = " ".join(text(comparison()).split())
    assert "50.0 % to 70.0 %: B slower" in said or "50.0 % to 100.0 %: B slower" in said


def test_knees_say_how_often_they_are_named() -> None:
    assert "knee of A: blocks.0 (100 % of resamples)" in text(comparison()).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    many = compare([measured(seed=1), measured(seed=2), failed(), published(seed=3)], "four")
    assert max(map(len, text(many, width).splitlines())) <= width


def test_a_study_of_which_nothing_was_measured_is_a_row_with_absent_values() -> None:
    said = text(compare([measured(seed=1), failed()], "t"))
    assert "0 of 0" in said
    assert "only baseline fits" in said
    assert "note: B: nothing was measured that is valid" in said
    assert "nan" not in said.lower()


def test_nothing_measured_at_all_is_still_a_table() -> None:
    assert "neither fits" in text(compare([failed(), failed()], "t"))


def test_what_is_not_about_all_studies_says_whose_it_is() -> None:
    blocks, layers = Shortening(prefix="transformer."), Shortening(prefix="model.")
    both = explanations({"A": blocks, "B": layers, "C": blocks})
    assert both == [
        "A, C: placements are shown without their common prefix `transformer.`",
        "B: placements are shown without their common prefix `model.`",
    ]
    assert explanations({"A": blocks, "B": blocks}) == [both[0].removeprefix("A, C: ")]
