"""The key of a capacity search: what its answer depends on, less what it searches."""

from __future__ import annotations

from typing import Any

from bench.capacity.types import ASKED, CAPACITY_SCHEMA_VERSION, GLOBAL_BATCH, Axis
from bench.spec import Controls, to_mapping
from bench.spec.key import hashed


def capacity_key(
    controls: Controls,
    axis: Axis,
    *,
    limit_bytes: int,
    limit_source: str,
    headroom: float,
    keep: str,
    evaluation: bool,
) -> str:
    """16 hex digits. The controls' searched option is left out, and the accumulation where it follows; their product is
    then in it. The device's own limit counts by name, since its controls name the device.

    Raises:
        ValueError: the controls have not been probed yet.
    """
    if controls.facts is None:
        raise ValueError("controls without facts have no key: probe the worker first")
    mapping: Any = to_mapping(controls)
    mapping["device"]["index"] = 0  # which of several equal devices it was is no control
    if keep == GLOBAL_BATCH:
        mapping["global_batch"] = controls.workload.micro_batch * controls.workload.accumulation
        del mapping["workload"]["accumulation"]
    for path in (axis.path, *axis.also):
        *folders, name = path.split(".")
        place = mapping
        for folder in folders:
            place = place[folder]
        del place[name]
    mapping["capacity"] = {
        "version": CAPACITY_SCHEMA_VERSION,
        "axis": axis.name,
        "multiple": axis.multiple,
        "limit": limit_bytes if limit_source == ASKED else limit_source,
        "headroom": headroom,
        "keep": keep,
        "evaluation": evaluation,
    }
    return hashed(mapping)
