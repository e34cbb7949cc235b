"""Budgets as people write them."""

from __future__ import annotations

import pytest

from bench.plan.budgets import budget_bytes
from bench.spec import SpecError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8GiB", 8 * 2**30),
        ("24GB", 24 * 10**9),
        ("1.5 MiB", 3 * 2**19),
        ("512kib", 512 * 2**10),
        ("2000000", 2_000_000),
        ("1000B", 1000),
        ("100%", 500),
        ("60%", 100 + 240),
        (" 50% ", 300),
    ],
)
def test_a_size_is_in_bytes_and_a_share_is_of_what_the_step_adds(text: str, expected: int) -> None:
    assert budget_bytes(text, persistent_bytes=100, peak_bytes=500) == expected


@pytest.mark.parametrize("text", ["8", "4.5", "24"])
def test_a_number_that_lacks_its_unit_is_no_size_in_bytes(text: str) -> None:
    with pytest.raises(SpecError, match=f"lacks its unit; write {text}GiB, {text}MiB or, for bytes, {text}B"):
        budget_bytes(text, persistent_bytes=100, peak_bytes=500)


@pytest.mark.parametrize("text", ["", "8 apples", "GiB", "0", "0%", "-1GB", "1e9", "8GiB8", "%"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(SpecError, match="write 8GiB, 8GB or 60%"):
        budget_bytes(text, persistent_bytes=100, peak_bytes=500)
