"""Whether the units of placements exist in a model, with the names a person may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from bench.placement.grammar import parse_placement
from bench.placement.types import Placement, PlacementError, natural_order
from bench.spec import PlacementEntry

CLOSE_MATCHES = 3


def check_modules(placements: Iterable[Placement | PlacementEntry], modules: Collection[str]) -> None:
    """Raises PlacementError for the first unit that is not among `modules` (qualified names); names close ones."""
    known = set(modules)
    for entry in placements:
        placement = parse_placement(entry.text) if isinstance(entry, PlacementEntry) else entry
        for region in placement.regions:
            for unit in region.units:
                if unit not in known:
                    raise PlacementError(f"placement {placement.text}: {_missing(unit, known)}")


def _missing(unit: str, known: set[str]) -> str:
    parent = unit.rpartition(".")[0]
    indices = [name for name in known if name.rpartition(".")[0] == parent and name.rpartition(".")[2].isdigit()]
    if unit.rpartition(".")[2].isdigit() and indices:
        indices.sort(key=natural_order)
        return f"the model has no {unit}; there are {indices[0]}..{indices[-1].rpartition('.')[2]}"
    close = difflib.get_close_matches(unit, known, n=CLOSE_MATCHES, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else "list the names with model.named_modules()"
    return f"the model has no module {unit!r}; {hint}"
