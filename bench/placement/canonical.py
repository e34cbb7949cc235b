"""The text form of placements, written: one text for every spelling of the same set of regions."""

from __future__ import annotations

import itertools
from collections import defaultdict

from bench.placement.grammar import OPTION_FIELDS
from bench.placement.types import NONE_TEXT, Kept, Options, Placement, Region, natural_order

MIN_PROGRESSION = 3
"""Fewest units that are worth saying as FIRST..LAST:every.K; two apart read better one by one."""


def format_placement(placement: Placement) -> str:
    if not placement.regions:
        return NONE_TEXT
    alike: dict[str, list[str]] = defaultdict(list)
    items: list[tuple[object, str]] = []
    for region in placement.regions:
        if len(region.units) == 1:
            alike[_tail(region)].append(region.units[0])
        else:
            items.append((_order(region.units[0], 0), _span(region.units) + _tail(region)))
    for tail, units in alike.items():
        items += [(_order(first, 1), text + tail) for first, text in _group(units)]
    return "+".join(text for _, text in sorted(items))


def _order(first: str, nesting: int) -> tuple[object, int]:
    return natural_order(first), nesting


def _tail(region: Region) -> str:
    policy = ":keep." + ".".join(_kept(kept) for kept in region.keeps) if region.keeps else ""
    return policy + _options(region.options)


def _kept(kept: Kept) -> str:
    if kept.calls:
        return kept.op + "".join(f"/{call}" for call in kept.calls)
    return kept.op + (f"%{kept.every}" if kept.every > 1 else "")


def _options(options: Options) -> str:
    return "".join(f"@{name}" for name, (field, value) in OPTION_FIELDS.items() if getattr(options, field) is value)


def _span(units: tuple[str, ...]) -> str:
    """`a.0..2/b.0..1` for a.0, a.1, a.2, b.0, b.1."""
    segments: list[list[str]] = []
    for unit in units:
        if segments and _follows(segments[-1][-1], unit):
            segments[-1].append(unit)
        else:
            segments.append([unit])
    return "/".join(s[0] if len(s) == 1 else f"{s[0]}..{s[-1].rpartition('.')[2]}" for s in segments)


def _follows(unit: str, following: str) -> bool:
    (prefix, _, last), (other, _, next_) = unit.rpartition("."), following.rpartition(".")
    return prefix == other and _is_index(last) and _is_index(next_) and int(next_) == int(last) + 1


def _is_index(part: str) -> bool:
    return part.isdigit() and str(int(part)) == part


def _group(units: list[str]) -> list[tuple[str, str]]:
    """(first unit, text) of items that name `units`, one region each. The largest family of paths that differ in one
    index is said first, so that `block.0.layer.1` and `block.1.layer.1` become `block.0..1.layer.1`."""
    rest, items = set(units), []
    while family := _largest_family(rest):
        before, after, progressions = family
        for first, last, step in progressions:
            members = _members(before, after, first, last, step)
            rest -= set(members)
            where = ".".join(filter(None, (before, f"{first}..{last}", after)))
            items.append((members[0], where + (":each" if step == 1 else f":every.{step}")))
    return items + [(unit, unit) for unit in rest]


def _largest_family(units: set[str]) -> tuple[str, str, list[tuple[int, int, int]]] | None:
    families: dict[tuple[str, str], list[int]] = defaultdict(list)
    for unit in units:
        parts = unit.split(".")
        for position, part in enumerate(parts):
            if _is_index(part):
                families[".".join(parts[:position]), ".".join(parts[position + 1 :])].append(int(part))
    found = [
        (-covered, before, after, progressions)
        for (before, after), indices in families.items()
        if (progressions := _progressions(sorted(indices)))
        and (covered := sum(len(range(a, b + 1, k)) for a, b, k in progressions))
    ]
    return min(found)[1:] if found else None


def _members(before: str, after: str, first: int, last: int, step: int) -> list[str]:
    return [".".join(filter(None, (before, str(index), after))) for index in range(first, last + 1, step)]


def _progressions(indices: list[int]) -> list[tuple[int, int, int]]:
    """(first, last, step) of the whole list where it is one arithmetic progression, else of its runs of two or more."""
    steps = {b - a for a, b in itertools.pairwise(indices)}
    if len(steps) == 1 and (steps == {1} or len(indices) >= MIN_PROGRESSION):
        return [(indices[0], indices[-1], steps.pop())]
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [(run[0], run[-1], 1) for run in runs if len(run) > 1]
