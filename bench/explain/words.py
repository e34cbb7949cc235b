"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile

SIZES = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))


def bytes_text(num_bytes: int) -> str:
    """`640 B`, `1.25 MiB`, `15.8 GiB`: at least three digits where there are as many."""
    name, size = next((unit for unit in SIZES if abs(num_bytes) < 1000 * unit[1]), SIZES[-1])
    value = num_bytes / size
    decimals = 0 if size == 1 or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{decimals}f} {name}"


def share_text(part: int, whole: int) -> str:
    """`12 %`, `0.4 %`, `< 0.1 %` of what is there but hardly; a share of nothing is 0 %."""
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 0.05:
        return "< 0.1 %"
    return f"{share:.1f} %" if 0 < share < 9.95 else f"{share:.0f} %"


def gflop_text(flops: int | None) -> str:
    """`0.0315`, in GFLOP; `–` where an op has no formula."""
    return "–" if flops is None else f"{flops / 1e9:.3g}"


def tensor_text(shape: Sequence[int] | None, dtype: str | None) -> str:
    """`(8, 1024, 768) float32`; without a shape `float32 of several shapes`, without both that no op has seen it."""
    if dtype is None:
        return "seen by no op"
    if shape is None:
        return f"{dtype} of several shapes"
    inside = ", ".join(map(str, shape))
    return f"({inside}{',' if len(shape) == 1 else ''}) {dtype}"


def count_text(number: int, noun: str, plural: str | None = None) -> str:
    """`1 tensor`, `3 tensors`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def join_text(parts: Sequence[str], most: int = 4) -> str:
    """`a`, `a and b`, `a, b and 7 more`."""
    if len(parts) > most:
        return f"{', '.join(parts[: most - 1])} and {len(parts) - most + 1} more"
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def in_module(module: str) -> str:
    """`in lm_head`, `outside every module`."""
    return f"in {module}" if module else "outside every module"


def sentences(*parts: str) -> str:
    """Parts as sentences; all but the first begin with a capital, so that a label may stand before the whole."""
    return " ".join(f"{part if n == 0 else part[:1].upper() + part[1:]}." for n, part in enumerate(filter(None, parts)))


def module_pattern(module: str) -> str:
    """Modules that differ in their numbers alone have one pattern: `transformer.h.*.mlp`."""
    return ".".join("*" if part.isdigit() else part for part in module.split("."))


def fold_modules(modules: Sequence[str]) -> str:
    """One name for modules of one pattern: `h.0..11.mlp`; `h.{0,2,5}.mlp` where numbers are missing between; the first
    few names where the numbers do not go with each other (`a.0.b.1` and `a.1.b.0`)."""
    names = list(dict.fromkeys(modules))
    columns = list(zip(*(name.split(".") for name in names), strict=True))
    if math.prod(len(set(column)) for column in columns) != len(names):
        return join_text(names)
    return ".".join(_fold_numbers(column) for column in columns)


def _fold_numbers(column: Sequence[str]) -> str:
    parts = list(dict.fromkeys(column))
    if len(parts) == 1:
        return parts[0]
    numbers = sorted(map(int, parts))
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}..{numbers[-1]}"
    return f"{{{','.join(map(str, numbers))}}}"


def is_inside(module: str, unit: str) -> bool:
    """Whether a module is a unit or lies in it."""
    return module == unit or module.startswith(f"{unit}.")


def common_module(modules: Sequence[str]) -> str:
    """The innermost module that all of them are or lie in; empty where that is the whole model."""
    columns = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))


_OF_PARAMETER = re.compile(r"^optimizer .* of (?P<parameter>\S+)$")


def owner_of(name: str) -> str:
    """Module of a parameter, buffer, gradient, or of an optimizer's state for a parameter, from its name."""
    found = _OF_PARAMETER.match(name)
    return (found["parameter"] if found else name).rpartition(".")[0]
