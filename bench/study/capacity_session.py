"""What the parts of a capacity search share: its directory, its spec, its records as they grow, and who watches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.capacity.axis import controls_at, proof_controls_at
from bench.capacity.store import CapacityRecords, CapacityWriter, write_spec
from bench.capacity.types import MODEL, CapacitySpec, Probe, Starting
from bench.spec import Controls, PlacementEntry, to_mapping
from bench.study.progress import Progress, Watch


@dataclass
class Session:
    directory: Path
    spec: CapacitySpec
    writer: CapacityWriter
    watch: Watch
    num_before: int = field(init=False)
    """Probes that were recorded before this run."""

    def __post_init__(self) -> None:
        self.num_before = len(self.records.of(Probe))

    @property
    def records(self) -> CapacityRecords:
        return self.writer.records

    def starting(self, work: str, placement: str | None = None, size: int | None = None) -> None:
        """Before anything that may be killed."""
        self.writer.write(Starting, work=work, placement=placement, size=size)

    def tell(self, label: str, message: str | None = None, done: int = 0, total: int = 0) -> None:
        self.watch(Progress(done=done, total=total, label=label, seconds_left=None, message=message))

    def bounded(self, bound_bytes: int | None) -> Controls:
        """As asked, for a process that may take so much memory."""
        return _bounded(self.spec.controls, bound_bytes)

    def timed_controls(self, size: int, bound_bytes: int | None) -> Controls:
        """At a size, for a process that may take so much memory."""
        return _bounded(controls_at(self.spec, size), bound_bytes)

    def proof_controls(self, size: int, bound_bytes: int | None) -> Controls:
        return _bounded(proof_controls_at(self.spec, size), bound_bytes)

    def model_options(self) -> dict[str, Any]:
        """What a worker needs to make placements anew for the model of each size; nothing where the model stays."""
        if self.spec.axis.kind != MODEL:
            return {}
        return {"entries": to_mapping(self.spec.placements), "options": to_mapping(self.spec.placement_options)}

    def add_placements(self, entries: Sequence[PlacementEntry]) -> None:
        """Those that it does not have, written before anything is found out of them."""
        known = {entry.text for entry in self.spec.placements}
        new = tuple(entry for entry in entries if entry.text not in known)
        if new:
            self.spec = dataclasses.replace(self.spec, placements=(*self.spec.placements, *new))
            write_spec(self.directory, self.spec)


def _bounded(controls: Controls, bound_bytes: int | None) -> Controls:
    return dataclasses.replace(controls, device=dataclasses.replace(controls.device, memory_limit_bytes=bound_bytes))
