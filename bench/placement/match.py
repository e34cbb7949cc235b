"""Whether the names in placements exist in a model and in torch, with those that a person may have meant."""

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


def check_ops(placements: Iterable[Placement | PlacementEntry], ops: Collection[str]) -> None:
    """Raises PlacementError for the first kept op that is not among `ops`; names close ones."""
    known = set(ops)
    for entry in placements:
        placement = parse_placement(entry.text) if isinstance(entry, PlacementEntry) else entry
        for kept in (kept for region in placement.regions for kept in region.keeps):
            if kept.op not in known:
                close = difflib.get_close_matches(kept.op, known, n=CLOSE_MATCHES, cutoff=0.5)
                hint = f"; did you mean {', '.join(close)}?" if close else ""
                raise PlacementError(f"placement {placement.text}: torch has no op {kept.op!r} to keep{hint}")


def _missing(unit: str, known: set[str]) -> str:
    if any(name == "_orig_mod" or name.startswith("_orig_mod.") for name in known):
        return f"the model has no module {unit!r}, since it is compiled: apply the placement first, and compile then"
    if unit.endswith(".json"):
        return f"{unit!r} is no module; a file is loaded by Placement.load({unit!r})"
    parent = unit.rpartition(".")[0]
    indices = [name for name in known if name.rpartition(".")[0] == parent and name.rpartition(".")[2].isdigit()]
    if unit.rpartition(".")[2].isdigit() and indices:
        indices.sort(key=natural_order)
        return f"the model has no {unit}; there are {indices[0]}..{indices[-1].rpartition('.')[2]}"
    longer = [name for name in known if name.endswith(f".{unit}")]
    if len(longer) == 1:
        return f"the model has no module {unit!r}; did you mean {longer[0]}? Tables leave out what all names begin with"
    close = difflib.get_close_matches(unit, known, n=CLOSE_MATCHES, cutoff=0.5)
    some = sorted(known - {""}, key=lambda name: (name.count("."), natural_order(name)))[:CLOSE_MATCHES]
    hint = f"did you mean {', '.join(close)}?" if close else f"it has {', '.join(some)} …"
    return f"the model has no module {unit!r}; {hint}"
