"""Numbers in the sentences of a capacity answer."""

from __future__ import annotations

MIB = 2**20


def four_digits(value: float) -> str:
    """`1,234` or `12.34`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def mib_text(num_bytes: int) -> str:
    return f"{four_digits(num_bytes / MIB)} MiB" if not 0 < num_bytes < MIB / 10 else f"{num_bytes:,} B"
