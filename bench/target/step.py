"""A study's step on a GPU that is not there: built once, then recorded under any placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bench.placement.wiring import Wiring
from bench.spec import Controls
from bench.target.allocator import CachingAllocator, Simulation, simulate_log
from bench.target.device import register_device, standing_in
from bench.target.roofline import roofline_time
from bench.target.spec import Target
from bench.target.workspaces import KernelWorkspaces, library_blocks
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.log import StepLog
from bench.trace.record import record_fake_step


class TargetStep:
    """Make one in a process of its own: it takes over PyTorch's one backend in Python for good."""

    def __init__(self, controls: Controls, target: Target) -> None:
        """Builds the step and runs it once, as `FakeStep` does.

        Raises:
            what FakeStep raises, and RuntimeError where this process stands in for another target.
        """
        self.target = target
        self.controls = controls
        self.workspace = KernelWorkspaces(target)
        self.allocator = CachingAllocator([block.size_bytes for block in library_blocks(target)])
        """For logs that do not know of what cuBLAS keeps; those of `record` do."""
        device = register_device(target)
        with standing_in():
            self.fake = FakeStep(controls, device)

    def wiring(self, units: Sequence[str]) -> Wiring:
        return self.fake.wiring(list(units))

    def record(self, placement: str, wiring: Wiring | None) -> StepLog:
        """One step under `placement`, its blocks as large as asked for, with what cuBLAS keeps among those that are
        there before it."""
        model = self.controls.model.name
        with self.fake.entered():
            log = record_fake_step(self.fake.step, placement, wiring, model=model, workspace=self.workspace)
        return dataclasses.replace(log, device=self.target.name, storages=(*log.storages, *library_blocks(self.target)))

    def forecaster(self, units: Sequence[str]) -> Forecaster:
        """What forecasts placements of `units`, as for the device at hand."""
        return Forecaster(
            self.fake, units, model=self.controls.model.name, allocator=self.allocator, workspace=self.workspace
        )

    def roofline_ms(self, log: StepLog) -> float:
        """A bound from data-sheet figures; see `bench.target.roofline`."""
        return 1000 * roofline_time(log, self.target).total_s

    def notes(self) -> tuple[str, ...]:
        """Sentences on what is not in the forecasts made so far."""
        named = [f"{op} ({what})" for op, what in sorted(self.workspace.unknown.items())]
        said = f"for {self.target.device_name}, which is not here: nothing of this was compared with one"
        if not named:
            return (said,)
        return said, f"what no source says is not in the forecasts: {'; '.join(named)}"


def as_allocated(log: StepLog) -> tuple[StepLog, Simulation]:
    """The log with blocks as large as the caching allocator makes them, so that its peak is that of allocated bytes,
    and what the allocator reports."""
    found = simulate_log(log)
    storages = tuple(
        dataclasses.replace(storage, size_bytes=size)
        for storage, size in zip(log.storages, found.block_bytes, strict=True)
    )
    return dataclasses.replace(log, storages=storages), found
