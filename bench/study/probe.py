"""What the worker's device and the model are, asked of a process of its own: the parent imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.spec import ChainInfo, Controls, Facts, to_mapping
from bench.study.ask import ask_process

TIMEOUT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    facts: Facts
    chains: tuple[ChainInfo, ...]
    modules: tuple[str, ...]
    """Qualified names of the model's modules."""
    ops: tuple[str, ...]
    """Names that a policy can keep: groups and aten ops."""
    capacity_bytes: int | None
    """Memory of the device."""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    """Of the model, as a study records it (`bench.placement.fingerprint`)."""


def probe_worker(controls: Controls) -> Probe:
    """Raises SpecError where the model or the device cannot be had as asked, WorkerError where the probe broke."""
    request = to_mapping(controls)
    return ask_process("bench.worker.probe", request, controls, Probe, what="the probe", timeout_s=TIMEOUT_S)
