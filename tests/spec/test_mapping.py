"""Plain mappings to dataclasses: what is converted, and how what is wrong is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from bench.spec import SpecError, from_mapping, to_mapping


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: float
    label: str | int | None = None


@dataclass(frozen=True, kw_only=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    named: Mapping[str, Leaf] = field(default_factory=dict)
    best: Leaf | None = None
    parts: tuple[str, ...] = ()


def test_what_was_written_is_read_back_equal() -> None:
    tree = Tree(leaves=(Leaf(size=1.0), Leaf(size=2.0, label=3)), named={"a": Leaf(size=0.5)}, best=Leaf(size=1.0))
    assert from_mapping(Tree, to_mapping(tree)) == tree


def test_a_whole_number_stands_for_a_number_and_stays_one_where_both_fit() -> None:
    leaf = from_mapping(Leaf, {"size": 2, "label": 2})
    assert (type(leaf.size), type(leaf.label)) == (float, int)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"leaves": [{"size": 1.0}, {"size": "big"}]}, "leaves[1].size: expected a number, got 'big'"),
        ({"leaves": [{"size": 1.0}, {}]}, "leaves[1].size: missing"),
        ({"leaves": {"size": 1.0}}, "leaves: expected a list, got {'size': 1.0}"),
        ({"named": {"a.b": {"size": 1.0, "colour": 1}}}, "named.a.b.colour: no such option; there are size, label"),
        ({"best": {"size": True}}, "best.size: expected a number, got True"),
        ({"best": {"size": 1.0, "label": 2.5}}, "best.label: expected a text, got 2.5"),
        ({"parts": ["a", 1]}, "parts[1]: expected a text, got 1"),
        ({"zebra": 1, "ape": 1}, "ape: no such option; there are leaves, named, best, parts"),
        ([], "value: expected a mapping, got []"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(data: object, message: str) -> None:
    with pytest.raises(SpecError) as error:
        from_mapping(Tree, data)
    assert str(error.value) == message


def test_the_path_begins_where_the_caller_says() -> None:
    with pytest.raises(SpecError, match=r"^tracker\.leaves\[0\]\.size: missing$"):
        from_mapping(Tree, {"leaves": [{}]}, where="tracker")
    with pytest.raises(SpecError, match=r"^tracker: expected a mapping, got 3$"):
        from_mapping(Tree, 3, where="tracker")
