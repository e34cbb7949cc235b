"""Bytes by module: a tree of the model, equal siblings folded into one row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bench.explain.reading import Reading
from bench.trace.categories import CATEGORIES, CategoryBytes


@dataclass(frozen=True, kw_only=True)
class ModuleRow:
    module: str
    """`transformer.h.0..11` for twelve siblings that hold the same; empty for what lies outside every module."""
    depth: int
    """Names in `module`, less one."""
    num_modules: int
    """Modules that the row stands for, in all."""
    bytes: int
    """Of all of them, what lies inside included."""
    own_bytes: int
    """What lies in none of their children."""
    categories: tuple[CategoryBytes, ...]
    """Those that are not empty, in the order of CATEGORIES."""


@dataclass
class _Node:
    own: dict[str, list[int]] = field(default_factory=dict)
    """Category → [bytes, tensors]."""
    children: dict[str, _Node] = field(default_factory=dict)

    def total(self) -> dict[str, list[int]]:
        total = {category: list(amounts) for category, amounts in self.own.items()}
        for child in self.children.values():
            for category, (num_bytes, tensors) in child.total().items():
                amounts = total.setdefault(category, [0, 0])
                amounts[0] += num_bytes
                amounts[1] += tensors
        return total

    def signature(self) -> object:
        """Equal of nodes that hold the same in the same places."""
        return (
            tuple(sorted((category, *amounts) for category, amounts in self.own.items())),
            tuple(sorted((name, child.signature()) for name, child in self.children.items())),
        )


def module_rows(reading: Reading, storages: Iterable[int]) -> tuple[ModuleRow, ...]:
    """Top down; the bytes of rows of depth 0 add up to those of `storages`."""
    root = _Node()
    for storage in storages:
        node = root
        module = reading.module_of(storage)
        for name in module.split("."):
            node = node.children.setdefault(name, _Node())
        amounts = node.own.setdefault(reading.category(storage), [0, 0])
        amounts[0] += reading.log.storages[storage].size_bytes
        amounts[1] += 1
    return tuple(_rows(root, "", 0, 1))


def _rows(node: _Node, path: str, depth: int, times: int) -> Iterator[ModuleRow]:
    for first, last, child in _folded(node.children):
        name = first if first == last else f"{first}..{last}"
        number = times if first == last else times * (int(last) - int(first) + 1)
        inside = f"{path}.{name}" if path else name
        total = child.total()
        yield ModuleRow(
            module=inside,
            depth=depth,
            num_modules=number,
            bytes=number * sum(amounts[0] for amounts in total.values()),
            own_bytes=number * sum(amounts[0] for amounts in child.own.values()),
            categories=tuple(
                CategoryBytes(category=c, bytes=number * total[c][0], num_tensors=number * total[c][1])
                for c in CATEGORIES
                if c in total
            ),
        )
        yield from _rows(child, inside, depth + 1, number)


def _folded(children: dict[str, _Node]) -> Iterator[tuple[str, str, _Node]]:
    """(first name, last name, one of them) of runs of consecutive numbers that hold the same; numbers in order."""
    numbered = sorted((name for name in children if name.isdigit()), key=int)
    names = [name for name in children if not name.isdigit()] + numbered
    position = 0
    while position < len(names):
        first = last = names[position]
        signature = children[first].signature() if first.isdigit() else None
        while (
            first.isdigit()
            and position + 1 < len(names)
            and int(names[position + 1]) == int(last) + 1
            and children[names[position + 1]].signature() == signature
        ):
            position += 1
            last = names[position]
        yield first, last, children[first]
        position += 1
