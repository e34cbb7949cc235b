"""Words that several notes share."""

from __future__ import annotations

from collections.abc import Sequence

NUM_NAMED = 3
"""Placements, and the like, that a note spells out before it counts the rest."""


def names(items: Sequence[object]) -> str:
    more = len(items) - NUM_NAMED
    return ", ".join(map(str, items[:NUM_NAMED])) + (f" and {more} more" if more > 0 else "")


def count(number: int, noun: str = "placement") -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
