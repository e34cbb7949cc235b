"""What the protocol promises, held against a campaign."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.selftest.campaign import Cell
from bench.stats.verdict import FASTER, SAME, SLOWER

MAX_FALSE = 0.05
"""Share of A/A studies that may say faster or slower, and of capped ones that may say same."""
MIN_FOUND = 0.95
MAX_ROUNDS_PER_ORACLE = 2.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    text: str
    holds: bool
    figure: str


def check_claims(cells: Sequence[Cell], capped: Iterable[Cell], resolution: float) -> tuple[Claim, ...]:
    """
    Args:
        cells: studies with as many rounds as they ask for.
        capped: studies with a delay and too few rounds to find it.
        resolution: the smallest delay that the protocol is to find.
    """
    equal = [cell for cell in cells if not cell.delay]
    delayed = [cell for cell in cells if cell.delay >= resolution]
    smallest = [cell for cell in delayed if cell.delay == min(other.delay for other in delayed)]
    claims: list[Claim] = []
    if equal:
        worst = max(equal, key=lambda cell: cell.share(FASTER) + cell.share(SLOWER))
        false = worst.share(FASTER) + worst.share(SLOWER)
        claims.append(_claim("equal placements are called different", false <= MAX_FALSE, false, worst, "at most 5 %"))
    if delayed:
        worst = min(delayed, key=lambda cell: cell.share(SLOWER))
        found = worst.share(SLOWER)
        claims.append(
            _claim(f"a delay of {resolution:.0%} or more is found", found >= MIN_FOUND, found, worst, "at least 95 %")
        )
    compared = [(cell, cell.rounds / cell.oracle_rounds) for cell in smallest if cell.oracle_rounds]
    if compared:
        cell, ratio = max(compared, key=lambda pair: pair[1])
        claims.append(
            Claim(
                text=f"rounds to find {cell.delay:.0%}, over those of a test that knows the noise",
                holds=ratio <= MAX_ROUNDS_PER_ORACLE,
                figure=f"× {ratio:.2f} at most ({cell.noise}); allowed: × {MAX_ROUNDS_PER_ORACLE:g}",
            )
        )
    cut_short = list(capped)
    if cut_short:
        worst = max(cut_short, key=lambda cell: cell.share(SAME))
        same = worst.share(SAME)
        text = "a delay that the cap forbids to find is called none"
        claims.append(_claim(text, same <= MAX_FALSE, same, worst, "at most 5 %"))
    return tuple(claims)


def _claim(text: str, holds: bool, share: float, worst: Cell, bound: str) -> Claim:
    return Claim(text=text, holds=holds, figure=f"{share:.1%} in the worst noise ({worst.noise}); allowed: {bound}")
