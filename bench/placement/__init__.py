"""Placements: their text form and generators are plain Python; applying one to a model loads torch."""

import importlib
from typing import Any

from bench.placement.errors import UnsupportedPlacementError as UnsupportedPlacementError
from bench.placement.generators import family_of as family_of, generate_placements as generate_placements
from bench.placement.grammar import parse_placement as parse_placement
from bench.placement.match import check_modules as check_modules, check_ops as check_ops
from bench.placement.origin import Fingerprint as Fingerprint, Origin as Origin
from bench.placement.saved import load_placement as load_placement, save_placement as save_placement
from bench.placement.types import (
    NONE as NONE,
    Kept as Kept,
    Options as Options,
    Placement as Placement,
    PlacementError as PlacementError,
    Region as Region,
    placement_id as placement_id,
)

_NEEDS_TORCH = {
    "apply": "bench.placement.applying",
    "Applied": "bench.placement.applying",
    "OtherModelWarning": "bench.placement.fingerprint",
    "fingerprint_of": "bench.placement.fingerprint",
    "record_wiring": "bench.placement.wiring",
}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_TORCH:
        return getattr(importlib.import_module(_NEEDS_TORCH[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
