"""The placements of a search at a size: where the axis changes the model, a generator's placement changes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.placement import Placement, generate_placements
from bench.spec import ChainInfo, PlacementEntry


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
    if options.get("explicit"):
        return entry.text
    made = {label: one.text for one in generate_placements(options, chains) for label in one.generators}
    return next((made[label] for label in entry.generators if label in made), entry.text)
