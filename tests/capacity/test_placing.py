"""Placements of a model whose size changes."""

from __future__ import annotations

from typing import Any

from bench.capacity.placing import placement_at
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


def test_what_was_named_by_its_text_stays() -> None:
    options = {"explicit": ["h.0..3:each"]}
    (entry,) = generate_placements(options, chains(4))
    assert placement_at(entry, (entry,), options, chains(6)) == "h.0..3:each"
