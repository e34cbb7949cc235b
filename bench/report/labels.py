"""Placement texts shortened for a reader: a common prefix taken off, the lists of blocks of models with several
abbreviated, long ones folded, never cut. What was taken off is explained, so that every label can be read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PATH_STARTS = r"(^|[+/])"
"""Where a module path may begin in a placement text."""


FULL_WORD = 4
"""A word of at most this many letters is its own abbreviation (`down`, `up`, `mid`); else its first three are."""


@dataclass(frozen=True, kw_only=True)
class Shortening:
    """How the placements of one study are written. Labels of a study are unambiguous with its `explanations`."""

    prefix: str = ""
    """Taken off every path."""
    lists: Mapping[str, str] = field(default_factory=dict)
    """List of blocks, without the prefix → what stands for it (`encoder.block` → `enc`)."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Placement → what stands for the whole of it (`bench.report.names`)."""

    def label(self, placement: str) -> str:
        """`dec|enc.0..5:each` for `decoder.block.0..5:each+encoder.block.0..5:each`."""
        if placement in self.names:
            return self.names[placement]
        short = short_label(placement, self.prefix)
        if not self.lists:
            return short
        # What stands before the blocks of an item → the rest of it; a span names several lists and stays as it is.
        grouped: dict[str, list[str]] = {}
        for item in short.split("+"):
            name = next((name for name in self.lists if item.startswith(f"{name}.")), None)
            if name is None or "/" in re.split(r"[:@]", item)[0]:
                grouped.setdefault(self._abbreviated(item), [])
            else:
                grouped.setdefault(item.removeprefix(name), []).append(self.lists[name])
        return "+".join("|".join(names) + rest for rest, names in grouped.items())

    def explanations(self) -> list[str]:
        """Sentences that tell how to read labels back; empty where nothing was shortened."""
        told = [f"placements are shown without their common prefix `{self.prefix}`"] if self.prefix else []
        if self.lists:
            each = ", ".join(f"`{short}.` is `{name}.`" for name, short in self.lists.items())
            (name, short), (other, other_short) = list(self.lists.items())[:2]
            told.append(f"in placements, {each}; `{short}|{other_short}.X` stands for `{name}.X+{other}.X`")
        if self.names:
            told.append("long placements are shown by what planned them: their texts are in frontier.csv and plan.json")
        return told

    def _abbreviated(self, item: str) -> str:
        for name, short in self.lists.items():
            item = re.sub(rf"(^|/){re.escape(name)}\.(?=\d)", rf"\1{short}.", item)
        return item


def shorten(placements: Iterable[str], names: Mapping[str, str] | None = None) -> Shortening:
    """The prefix that all placements share, and abbreviations where blocks stand in several lists.

    Args:
        names: placement → what stands for its text.
    """
    texts = [text for text in placements if text != "none"]
    prefix = common_prefix(texts)
    names = names or {}
    texts = [text for text in texts if text not in names]
    paths = {path.removeprefix(prefix) for text in texts for path in _paths(text)}
    lists = sorted({match[1] for path in paths if (match := re.match(r"([^\d.][^.]*(?:\.[^\d.][^.]*)*)\.\d", path))})
    abbreviations = {name: _abbreviation(name) for name in lists}
    taken = [*abbreviations.values(), *(path.split(".")[0] for path in paths if not path.startswith(tuple(lists)))]
    is_clear = len(set(taken)) == len(abbreviations) + len(set(taken[len(abbreviations) :]))
    is_shorter = any(len(name) > len(short) + 2 for name, short in abbreviations.items())
    is_used = len(lists) > 1 and is_clear and is_shorter
    return Shortening(prefix=prefix, lists=abbreviations if is_used else {}, names=names)


def _abbreviation(name: str) -> str:
    match = re.match(r"[A-Za-z]+", name)
    word = match[0] if match else name
    return word if len(word) <= FULL_WORD else word[: FULL_WORD - 1]


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
    for path in _paths(placement):
        names = path.split(".")
        first_number = next((i for i, name in enumerate(names) if name.isdigit()), len(names))
        yield ".".join(names[:first_number])


def _paths(placement: str) -> Iterable[str]:
    """The module paths of all items, ranges and all."""
    for item in placement.split("+"):
        yield from re.split(r"[:@]", item)[0].split("/")


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
