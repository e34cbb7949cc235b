"""Memory budgets as people write them."""

from __future__ import annotations

import re

from bench.spec import SpecError

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-zA-Z]*|%)")


def budget_bytes(text: str, *, persistent_bytes: int, peak_bytes: int) -> int:
    """Total peak allocated bytes of `8GiB`, `24GB` or a bare number of bytes; `60%` is what is there before the step
    and 60 % of what the plain step adds to it.

    Raises:
        SpecError: it is none of them, not more than 0, or a bare number of less than a MiB, which lacks its unit.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = match["unit"].upper() if match else ""
    if match is None or (unit not in ("", "%") and unit not in UNITS) or float(match["number"]) <= 0:
        raise SpecError(f"budget: {text!r} is no size; write 8GiB, 8GB or 60% (of what the plain step adds)")
    number = float(match["number"])
    if unit == "" and number < UNITS["MIB"]:
        number_text = match["number"]
        raise SpecError(
            f"budget: {text!r} lacks its unit; write {number_text}GiB, {number_text}MiB or, for bytes, {number_text}B"
        )
    if unit == "%":
        return persistent_bytes + round(number / 100 * (peak_bytes - persistent_bytes))
    return round(number * UNITS.get(unit, 1))
