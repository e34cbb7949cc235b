"""A capacity search as it is asked for, and as it is once the device has told its facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.capacity.axis import asked_axis, bound_of, sizes_of, start_size
from bench.capacity.key import capacity_key
from bench.capacity.types import ASKED, DEVICE, MICRO_BATCH, CapacitySpec
from bench.capacity.words import MIB, mib_text
from bench.placement import check_modules, check_ops, generate_placements
from bench.spec import AUDITS, AUTO, GATE, RESTORES, Controls, SpecError, validate_controls
from bench.study.probe import Probe, probe_worker

CPU_SHARE = 0.8
"""Of the machine's memory, what a limit that is not given leaves to the step."""


@dataclass(frozen=True, kw_only=True)
class CapacityRequest:
    """Fields as in `bench.capacity.types.CapacitySpec`; None takes what is usual."""

    controls: Controls
    """Without facts."""
    placements: Mapping[str, Any]
    """Options of the generators, as in `conf/placements`."""
    axis: str = MICRO_BATCH
    multiple: int | None = None
    limit_bytes: int | None = None
    headroom: float = 0.0
    keep: str = MICRO_BATCH
    largest: int | None = None
    evaluation: bool = False
    multiples: tuple[int, ...] = (2, 4)
    rounds: int = 5
    time_cap_s: float | None = None
    probe_timeout_s: float = 600.0
    audit: str = GATE
    restore: str = AUTO
    recorded: Mapping[str, str] = field(default_factory=dict)


def validate_request(request: CapacityRequest) -> None:
    """Raises SpecError for the first field that is out of its range, naming the option; needs no device."""
    validate_controls(request.controls)
    if request.controls.device.memory_limit_bytes is not None:
        raise SpecError("device.memory_limit_bytes: a capacity search sets it itself; say limit=")
    if request.limit_bytes is not None and request.limit_bytes < 1:
        raise SpecError(f"limit: must be above 0, got {request.limit_bytes}")
    if not 0 <= request.headroom < 1:
        raise SpecError(f"headroom: a share of the limit from 0 up to 1, got {request.headroom}")
    if any(multiple < 2 for multiple in request.multiples):
        raise SpecError(f"multiples: expected whole numbers of at least 2, got {list(request.multiples)}")
    if request.rounds < 0:
        raise SpecError(f"rounds: expected a whole number of at least 0, got {request.rounds}")
    for option, seconds in (("time_cap_s", request.time_cap_s), ("probe_timeout_s", request.probe_timeout_s)):
        if seconds is not None and not seconds > 0:
            raise SpecError(f"{option}: expected seconds above 0, got {seconds:g}")
    for option, value, allowed in (("audit", request.audit, AUDITS), ("restore", request.restore, RESTORES)):
        if value not in allowed:
            raise SpecError(f"{option}: {value!r} is not one of {', '.join(allowed)}")
    axis = asked_axis(request.axis, request.controls, request.multiple)
    bound_of(axis, request.controls, request.keep, request.largest)


def resolved(request: CapacityRequest) -> CapacitySpec:
    """Asks the device and the model for their facts.

    Raises:
        SpecError: the request is wrong, or the model or the device cannot be had as asked.
        WorkerError: the process that asks them broke.
    """
    validate_request(request)
    axis = asked_axis(request.axis, request.controls, request.multiple)
    probe = probe_worker(request.controls)
    controls = dataclasses.replace(request.controls, facts=probe.facts)
    entries = generate_placements(request.placements, probe.chains)
    check_modules(entries, probe.modules)
    check_ops(entries, probe.ops)
    source = DEVICE if request.limit_bytes is None else ASKED
    limit = _device_limit(controls, probe) if request.limit_bytes is None else request.limit_bytes
    there = probe.capacity_bytes
    if controls.device.kind == "cuda" and there is not None and limit > there:
        raise SpecError(
            f"limit: {mib_text(limit)} is more than this device has, {mib_text(there)}; leave it away for all"
        )
    spec = CapacitySpec(
        name=controls.model.name,
        key=capacity_key(
            controls,
            axis,
            limit_bytes=limit,
            limit_source=source,
            headroom=request.headroom,
            keep=request.keep,
            evaluation=request.evaluation,
        ),
        controls=controls,
        axis=axis,
        start=start_size(axis, controls),
        limit_bytes=limit,
        limit_source=source,
        headroom=request.headroom,
        keep=request.keep,
        largest=bound_of(axis, controls, request.keep, request.largest),
        evaluation=request.evaluation,
        placements=entries,
        chains=tuple(probe.chains),
        placement_options=request.placements,
        multiples=tuple(sorted(set(request.multiples))),
        rounds=request.rounds,
        time_cap_s=request.time_cap_s,
        probe_timeout_s=request.probe_timeout_s,
        audit=request.audit,
        restore=request.restore,
        recorded={**request.recorded, **probe.fingerprint},
    )
    sizes_of(spec)
    return spec


def _device_limit(controls: Controls, probe: Probe) -> int:
    if probe.capacity_bytes is None:
        raise SpecError("limit: this device does not say how much memory it has; say limit=8GiB")
    share = 1.0 if controls.device.kind == "cuda" else CPU_SHARE
    return int(share * probe.capacity_bytes) // MIB * MIB
