"""Reasons shortened for a table."""

from __future__ import annotations

from bench.report.reasons import CHARACTERS_MAX, brief


def test_a_reason_that_fits_is_whole_and_on_one_line() -> None:
    assert brief("wanted 77 MiB\nof a limit") == "wanted 77 MiB of a limit"
    assert brief("x" * CHARACTERS_MAX) == "x" * CHARACTERS_MAX


def test_of_a_long_reason_the_clauses_that_fit_are_left() -> None:
    cause = "state: h.0: its replay reads a buffer, which a forward has moved since;"
    assert brief(f"{cause} {'y' * CHARACTERS_MAX}") == f"{cause} …"


def test_a_long_clause_is_cut() -> None:
    assert brief("x" * (CHARACTERS_MAX + 1)) == "x" * (CHARACTERS_MAX - 1) + "…"
