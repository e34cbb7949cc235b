"""Placement texts shortened for a reader: one common prefix taken off, long ones folded, never cut."""

from __future__ import annotations

import re
from collections.abc import Iterable

PATH_STARTS = r"(^|[+/])"
"""Where a module path may begin in a placement text."""


def common_prefix(placements: Iterable[str]) -> str:
    """The dotted prefix that all module paths share, the container of numbered units left in place.

    `transformer.h.0..5:each` and `transformer.h.0..11.mlp:each` share `transformer.`, so `h.0..5:each` is left. Empty
    where nothing is shared.
    """
    parents = [path.split(".")[:-1] for text in placements if text != "none" for path in _containers(text)]
    if not parents:
        return ""
    shared = []
    for names in zip(*parents, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return "".join(f"{name}." for name in shared)


def _containers(placement: str) -> Iterable[str]:
    """Of each path, what stands before its first number: `transformer.h` of `transformer.h.0..5.mlp:each`."""
    for item in placement.split("+"):
        for path in re.split(r"[:@]", item)[0].split("/"):
            names = path.split(".")
            first_number = next((i for i, name in enumerate(names) if name.isdigit()), len(names))
            yield ".".join(names[:first_number])


def short_label(placement: str, prefix: str) -> str:
    """`placement` with `prefix` taken off each of its paths."""
    return re.sub(PATH_STARTS + re.escape(prefix), r"\1", placement) if prefix else placement


def fold(label: str, width: int) -> list[str]:
    """Lines of at most `width` characters that join to `label` again; best between items, else at a joint or a dot."""
    lines = []
    while len(label) > width:
        places = range(width // 3 + 1, width + 1)
        items = [i for i in places if label[i - 1] == "+"]
        joints = [i for i in places if label[i - 1] in "+/" or label[i] in ":@"]
        dots = [i for i in places if label[i - 1] == "." and "." not in label[i - 2] + label[i]]
        cut = (items or joints or dots or [width])[-1]
        lines.append(label[:cut])
        label = label[cut:]
    return [*lines, label]
