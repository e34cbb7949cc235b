"""The text form of placements, read.

    placement := "none" | item ("+" item)*
    item      := where [":" form] [":" policy] ("@" option)*
    where     := segment ("/" segment)*        one region of all units named, in this order
    segment   := path | [prefix "."] FIRST ".." LAST ["." suffix]
    form      := "each" | "every." K           a region of its own for each unit, or for every K-th from FIRST on
    policy    := "keep." kept ("." kept)*
    kept      := OP ["%" K | ("/" CALL)+]      all calls of the op, every K-th, or the calls named
    option    := "reentrant" | "no-rng" | "no-early-stop" | "no-determinism-check" | "restore"

It uses only letters, digits and `_ - . / + % @ :`, so that Hydra, bash, make, YAML, CSV and MLflow take it bare.
"""

from __future__ import annotations

import difflib
import re

from bench.placement.types import (
    NONE,
    NONE_TEXT,
    UNIT_PATH,
    Kept,
    Options,
    Placement,
    PlacementError,
    Region,
)

OPTION_FIELDS: dict[str, tuple[str, bool]] = {
    "no-determinism-check": ("determinism_check", False),
    "no-early-stop": ("early_stop", False),
    "no-rng": ("preserve_rng", False),
    "reentrant": ("reentrant", True),
    "restore": ("restore", True),
}
MAX_UNITS = 10_000

_ALLOWED = re.compile(r"[A-Za-z0-9_\-./+%@:]*")
_RANGE = re.compile(r"(?P<prefix>(?:[A-Za-z0-9_-]+\.)*)(?P<first>\d+)\.\.(?P<last>\d+)(?:\.(?P<suffix>.+))?")
_KEPT = re.compile(r"(?P<op>[a-z_][a-z0-9_-]*)(?:%(?P<every>\d+)|(?P<calls>(?:/\d+)+))?")


def parse_placement(text: str) -> Placement:
    """Raises PlacementError saying which part of `text` is wrong and what was expected."""
    stray = text[_ALLOWED.match(text).end() :]  # type: ignore[union-attr]
    if stray or not text:
        found = f"{stray[0]!r} is not allowed in it" if stray else "it is empty"
        raise PlacementError(f"placement {text!r}: {found}; use letters, digits and _ - . / + % @ :")
    if text == NONE_TEXT:
        return NONE
    regions: list[Region] = []
    for item in text.split("+"):
        try:
            regions += _item(item)
        except PlacementError as error:
            raise PlacementError(f"placement {text!r}: {error}") from None
    return Placement(tuple(regions))


def _item(item: str) -> list[Region]:
    body, *option_names = item.split("@")
    where, *fields = body.split(":")
    options = _options(option_names)
    form = fields.pop(0) if fields and not fields[0].startswith("keep.") else None
    keeps = _policy(fields.pop(0)) if fields else ()
    if fields:
        raise PlacementError(f"{item!r}: unexpected {':' + fields[0]!r}; write WHERE[:FORM][:keep.OP…][@OPTION…]")
    if form is None:
        return [Region(units=_span(where), keeps=keeps, options=options)]
    if "/" in where:
        raise PlacementError(f"{item!r}: '/' makes one region, so it cannot be :{form}; join items with '+'")
    units = _segment(where)
    step = _step(form)
    return [Region(units=(unit,), keeps=keeps, options=options) for unit in units[::step]]


def _span(where: str) -> tuple[str, ...]:
    units: list[str] = []
    for segment in where.split("/"):
        members = _segment(segment)
        if len(members) > 1 and (match := _RANGE.fullmatch(segment)) and match["suffix"]:
            raise PlacementError(f"{segment!r}: parts of several units are not one region; write {segment}:each")
        units += members
    return tuple(units)


def _segment(segment: str) -> list[str]:
    match = _RANGE.fullmatch(segment)
    if match is None:
        if not UNIT_PATH.fullmatch(segment):
            raise PlacementError(f"{segment!r} is no module path; write a.b.3 or a.b.0..5 or a.b.0..5.c")
        return [segment]
    suffix = match["suffix"]
    if suffix is not None and not UNIT_PATH.fullmatch(suffix):
        raise PlacementError(f"{segment!r}: a path holds one range FIRST..LAST at most")
    first, last = int(match["first"]), int(match["last"])
    if first > last:
        raise PlacementError(f"{segment!r}: the range runs backwards; write {last}..{first}")
    if last - first >= MAX_UNITS:
        raise PlacementError(f"{segment!r}: more than {MAX_UNITS} units")
    tail = f".{suffix}" if suffix else ""
    return [f"{match['prefix']}{index}{tail}" for index in range(first, last + 1)]


def _step(form: str) -> int:
    if form == "each":
        return 1
    match = re.fullmatch(r"every\.([1-9]\d*)", form)
    if match is None:
        raise PlacementError(f"{form!r} is no form; write each, every.K or keep.OP")
    return int(match[1])


def _policy(field: str) -> tuple[Kept, ...]:
    if not field.startswith("keep."):
        raise PlacementError(f"{field!r} is no policy; write keep.OP, such as keep.matmul or keep.attention")
    return tuple(_kept(part) for part in field.removeprefix("keep.").split("."))


def _kept(part: str) -> Kept:
    match = _KEPT.fullmatch(part)
    if match is None:
        raise PlacementError(f"keep.{part}: write keep.OP, keep.OP%K for every K-th call, or keep.OP/0/3 for calls")
    every = int(match["every"]) if match["every"] else 1
    if every < 1:
        raise PlacementError(f"keep.{part}: every K-th call needs K of at least 1")
    calls = tuple(sorted({int(call) for call in match["calls"].split("/")[1:]})) if match["calls"] else ()
    return Kept(op=match["op"], every=every, calls=calls)


def _options(names: list[str]) -> Options:
    values: dict[str, bool] = {}
    for name in names:
        if name not in OPTION_FIELDS:
            close = difflib.get_close_matches(name, OPTION_FIELDS, n=1)
            hint = f"; did you mean @{close[0]}?" if close else ""
            raise PlacementError(f"@{name} is no checkpoint option; there are @{', @'.join(OPTION_FIELDS)}{hint}")
        field, value = OPTION_FIELDS[name]
        values[field] = value
    return Options(**values)
