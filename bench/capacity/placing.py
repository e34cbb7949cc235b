"""The placements of a search at a size: where the axis changes the model, a generator's placement changes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.placement import Placement, generate_placements
from bench.placement.generators import EXPLICIT_FAMILY, PEER_FAMILY, PLANNED_FAMILY, family_of
from bench.records import PLAIN
from bench.spec import ChainInfo, PlacementEntry

NAMED = (EXPLICIT_FAMILY, PLANNED_FAMILY, PEER_FAMILY)


def placement_at(
    entry: PlacementEntry,
    entries: Sequence[PlacementEntry],
    options: Mapping[str, Any],
    chains: Sequence[ChainInfo],
) -> str:
    """Canonical text of what `entry`, made for the model at its start size, is for a model with these chains.

    What a generator made is made anew by the generator of the same label. What was named by its text stays as it is:
    units that a larger model has more are then not replayed.

    Args:
        entries: of the whole search, among which the original of a twin is found.
        options: of the generators, as in `conf/placements`.

    Raises:
        PlacementError: a generator's option does not suit a model of this size.
    """
    if entry.twin_of is not None:
        original = next((other for other in entries if other.text == entry.twin_of), None)
        if original is not None:
            return Placement.parse(placement_at(original, entries, options, chains)).restored().text
    if entry.text == PLAIN or is_named_by_text(entry.generators):
        return entry.text
    generators = {**options, "explicit": []}
    made = {label: one.text for one in generate_placements(generators, chains) for label in one.generators}
    return next((made[label] for label in entry.generators if label in made), entry.text)


def is_named_by_text(labels: Sequence[str]) -> bool:
    """Whether no generator can make the placement anew for another model: somebody named it, or it was planned."""
    return all(family_of(label) in NAMED for label in labels)


def joined_options(before: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the generators by which the placements of both are made anew."""
    joined = {**before, **asked}
    for name in before.keys() & asked.keys():
        old, new = before[name], asked[name]
        if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
            joined[name] = [*old, *(value for value in new if value not in old)]
        elif isinstance(old, bool) and isinstance(new, bool):
            joined[name] = old or new
    return joined
