"""Placements of a model whose size changes."""

from __future__ import annotations

from typing import Any

from bench.capacity.placing import joined_options, placement_at
from bench.placement import generate_placements
from bench.spec import ChainInfo, PlacementEntry

OPTIONS: dict[str, Any] = {"none": True, "each": True, "every": [2], "but_last": [1]}


def chains(layers: int) -> tuple[ChainInfo, ...]:
    return (ChainInfo(name="h", units=tuple(f"h.{index}" for index in range(layers))),)


def test_what_a_generator_made_is_made_anew_for_the_larger_model() -> None:
    entries = generate_placements(OPTIONS, chains(4))
    at_six = [placement_at(entry, entries, OPTIONS, chains(6)) for entry in entries]
    assert at_six == ["none", "h.0..5:each", "h.0..4:every.2", "h.0..4:each"]


def test_the_twin_of_such_a_placement_follows_it() -> None:
    entries = generate_placements(OPTIONS, chains(4))
    twin = PlacementEntry(text="h.0..3:each@restore", id="x", generators=("twin",), twin_of="h.0..3:each")
    assert placement_at(twin, (*entries, twin), OPTIONS, chains(6)) == "h.0..5:each@restore"


def test_what_was_asked_for_first_follows_the_model_though_others_were_named_later() -> None:
    entries = generate_placements(OPTIONS, chains(4))
    options = joined_options(OPTIONS, {"none": False, "each": False, "every": [4], "explicit": ["h.0"]})
    (named,) = generate_placements(options, chains(4))
    at_six = [placement_at(entry, (*entries, named), options, chains(6)) for entry in (*entries, named)]
    assert at_six == ["none", "h.0..5:each", "h.0..4:every.2", "h.0..4:each", "h.0"]
    assert options["every"] == [2, 4]


def test_none_is_none_where_nothing_else_can_be_made() -> None:
    plain = PlacementEntry(text="none", id="x", generators=("none",))
    assert placement_at(plain, (plain,), {"explicit": ["h.0"]}, chains(6)) == "none"


def test_what_was_planned_at_one_size_stays_as_it_is() -> None:
    planned = PlacementEntry(text="h.1..2", id="x", generators=("planned (90.0 MiB)",))
    assert placement_at(planned, (planned,), {"explicit": ["none"]}, chains(6)) == "h.1..2"


def test_what_was_named_by_its_text_stays() -> None:
    options = {"explicit": ["h.0..3:each"]}
    (entry,) = generate_placements(options, chains(4))
    assert placement_at(entry, (entry,), options, chains(6)) == "h.0..3:each"
