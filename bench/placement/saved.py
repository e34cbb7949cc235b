"""A placement as a file that a training script loads: JSON, with where it was measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from bench.placement.grammar import parse_placement
from bench.placement.origin import Origin
from bench.placement.types import Placement, PlacementError
from bench.records import write_json
from bench.spec import SpecError, from_mapping, to_mapping

KIND = "boundary-bench placement"
SAVED_VERSION = 1
_REMEDY = "write it with python -m bench recommend study=… save=placement.json"


def save_placement(path: str | Path, placement: Placement, origin: Origin | None) -> None:
    """Replaces the file as a whole. `origin` is the study that it was chosen from; None where there is none.

    Raises:
        CannotWriteError: it cannot be written.
    """
    head = {"kind": KIND, "schema_version": SAVED_VERSION, "placement": placement.text, "id": placement.id}
    write_json(Path(path), head | {"origin": None if origin is None else to_mapping(origin)})


def load_placement(path: str | Path) -> Placement:
    """A placement that `save_placement` wrote; its `origin` is set where the file has one.

    Raises:
        PlacementError: there is no such file, or it is no saved placement: says what is wrong with it.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlacementError(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from None
    except (ValueError, RecursionError) as error:
        raise PlacementError(f"{path}: not JSON ({error}); {_REMEDY}") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise PlacementError(f"{path}: no saved placement; {_REMEDY}")
    if data.get("schema_version") != SAVED_VERSION:
        raise PlacementError(
            f"{path}: schema_version {data.get('schema_version')!r}, expected {SAVED_VERSION}; {_REMEDY}"
        )
    text, origin = data.get("placement"), data.get("origin")
    if not isinstance(text, str):
        raise PlacementError(f"{path}: placement: expected a text, got {text!r}")
    try:
        placement = parse_placement(text)
        found = None if origin is None else from_mapping(Origin, origin, where="origin")
    except SpecError as error:
        raise PlacementError(f"{path}: {error}; {_REMEDY}") from None
    if data.get("id") != placement.id:
        raise PlacementError(f"{path}: its text was changed, since its id is that of another placement; {_REMEDY}")
    return dataclasses.replace(placement, origin=found)
