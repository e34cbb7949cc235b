"""Forecasts of placements from steps on tensors without memory: by whole fake steps, or all from two recordings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from bench.placement.applying import apply
from bench.placement.grammar import parse_placement
from bench.placement.match import check_modules
from bench.placement.types import Placement
from bench.placement.wiring import Wiring
from bench.records.forecast import FAKE_STEP, REARRANGED, Forecast
from bench.step.interface import BACKWARD, FORWARD
from bench.trace.fake import FakeStep
from bench.trace.fake_ledger import Workspace
from bench.trace.log import NOWHERE, REPLAY, Op, PhaseMark, StepLog, Storage
from bench.trace.peaks import Allocator, ExactAllocator
from bench.trace.rearrange import CannotRearrangeError, Rearranged, Rearranger
from bench.trace.record import record_fake_step
from bench.trace.saved import Recording, record_held, record_unheld


def forecast_from_log(log: StepLog, allocator: Allocator | None = None, method: str = FAKE_STEP) -> Forecast:
    """What a recorded step says of its placement.

    Args:
        allocator: that would serve the step's blocks; by default one that hands out what is asked for, as on the CPU.
    """
    is_replay: list[bool] = []
    for region_pass in log.passes:
        around = region_pass.around != NOWHERE and is_replay[region_pass.around]
        is_replay.append(around or region_pass.kind == REPLAY)
    return _forecast(
        _Step(
            placement=log.placement,
            method=method,
            persistent=log.storages,
            sizes=[storage.size_bytes for storage in log.storages],
            events=log.events,
            phases=log.phases,
            ops=log.ops,
            replayed=[op for op in log.ops if op.region_pass != NOWHERE and is_replay[op.region_pass]],
        ),
        allocator or ExactAllocator(),
    )


class Forecaster:
    """Forecasts of one study's placements. The step that it is given is its own."""

    def __init__(
        self,
        fake: FakeStep,
        units: Collection[str],
        *,
        model: str,
        allocator: Allocator | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        """
        Args:
            units: that placements will name; others may follow, at the price of one more forward where they are spans'.
            model: name that stands in logs.
            allocator: that would serve the step; by default one that hands out what is asked for, as on the CPU.
            workspace: what kernels take for themselves; by default nothing.
        """
        self._fake = fake
        self._units = set(units)
        self._model = model
        self._allocator = allocator or ExactAllocator()
        self._workspace = workspace
        self._wiring: Wiring | None = None
        self._held: Recording | None = None
        self._rearranger: Rearranger | CannotRearrangeError | None = None

    def by_fake_step(self, placement: str | Placement) -> tuple[Forecast, StepLog]:
        """Runs a whole step.

        Raises:
            PlacementError, UnsupportedPlacementError: as `apply` does.
            what the model's own code raises.
        """
        placement = _parsed(placement)
        log = self._record(placement.text, self._wiring_of(placement))
        return forecast_from_log(log, self._allocator), log

    def fast(self, placement: str | Placement) -> Forecast:
        """Equal to `by_fake_step`'s, in milliseconds; the first call records what all are worked out from.

        Raises:
            CannotRearrangeError: this placement takes a whole step.
            PlacementError, UnsupportedPlacementError: as `apply` does.
        """
        placement = _parsed(placement)
        found, log = self.rearranged(placement), self.plain_log
        return _forecast(
            _Step(
                placement=placement.text,
                method=REARRANGED,
                persistent=log.storages,
                sizes=found.sizes,
                events=found.events,
                phases=found.phases,
                ops=[*log.ops, *(replayed := [log.ops[index] for index in found.replayed])],
                replayed=replayed,
            ),
            self._allocator,
        )

    def rearranged(self, placement: str | Placement) -> Rearranged:
        """What `fast` forecasts from; its ops and storages are numbered as in `plain_log`.

        Raises:
            what `fast` raises.
        """
        placement = _parsed(placement)
        rearranger, _ = self._ready()
        with apply(self._fake.step.model, placement, wiring=self._wiring_of(placement)):
            pass  # what it refuses cannot be forecast
        return rearranger.rearranged(placement)

    @property
    def plain_log(self) -> StepLog:
        """The plain step as it was watched, so with a block more for each sum of gradients; of an op of backward it
        does not say the op whose gradient it computes. Recorded at the first use.

        Raises:
            CannotRearrangeError: no placement can be worked out from it.
        """
        return self.plain_recording.log

    @property
    def plain_recording(self) -> Recording:
        """`plain_log` with what autograd saved and the calls of modules.

        Raises:
            what `plain_log` raises.
        """
        return self._ready()[1]

    @property
    def rearranger(self) -> Rearranger:
        """What placements are worked out by, whether or not the model takes them; raises what `plain_log` does."""
        return self._ready()[0]

    @property
    def model(self) -> nn.Module:
        """On fake tensors; to be looked at."""
        return self._fake.step.model

    def wiring(self) -> Wiring:
        """Of all units named so far."""
        if self._wiring is None:
            self._wiring = self._fake.wiring(sorted(self._units))
        return self._wiring

    def forecast(self, placement: str | Placement) -> Forecast:
        """The fast way where there is one, else by a whole step; raises what `by_fake_step` does."""
        try:
            return self.fast(placement)
        except CannotRearrangeError:
            return self.by_fake_step(placement)[0]

    def _record(self, placement: str, wiring: Wiring | None = None) -> StepLog:
        with self._stepping():
            return record_fake_step(self._fake.step, placement, wiring, model=self._model, workspace=self._workspace)

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        """Where the step does not end, gradients are put back to what a whole step leaves."""
        try:
            with self._fake.entered():
                yield
        except Exception:
            step = self._fake.step
            with self._fake.entered():
                step.optimizer.zero_grad(set_to_none=True)
                step.model.zero_grad(set_to_none=True)  # what another optimizer would clear
                step.run()
            raise

    def _wiring_of(self, placement: Placement) -> Wiring | None:
        members = {unit for region in placement.regions if len(region.units) > 1 for unit in region.units}
        if not members:
            return None
        check_modules([placement], {name for name, _ in self._fake.step.model.named_modules()})
        if self._wiring is None or not members <= self._units:
            self._units |= members
            self._wiring = self._fake.wiring(sorted(self._units))
        return self._wiring

    def _ready(self) -> tuple[Rearranger, Recording]:
        """What works out placements, and the plain step that its ops are numbered by."""
        if self._rearranger is None:
            self._rearranger = self._made()
        if isinstance(self._rearranger, CannotRearrangeError):
            raise CannotRearrangeError(*self._rearranger.args)  # a new one: each raise would add to its traceback
        assert self._held is not None
        return self._rearranger, self._held

    def _made(self) -> Rearranger | CannotRearrangeError:
        step = self._fake.step
        try:
            with self._stepping():
                held = record_held(step, model=self._model, workspace=self._workspace)
            with self._stepping():
                unheld = record_unheld(step, model=self._model, workspace=self._workspace)
        except Exception as error:  # a whole step, which needs no hooks, tells whether the model is at fault
            return CannotRearrangeError(f"the step does not run with hooks on what it saves: {error!r}")
        self._held = held
        # A GPU's generator keeps its state in host memory.
        rng_state_bytes = torch.get_rng_state().nbytes if step.device.type == "cpu" else 0
        try:
            return Rearranger(held, unheld, rng_state_bytes=rng_state_bytes)
        except CannotRearrangeError as error:
            return error.with_traceback(None)


@dataclass(frozen=True, kw_only=True)
class _Step:
    placement: str
    method: str
    persistent: Iterable[Storage]
    """All storages of a log, of which some were there before."""
    sizes: Sequence[int]
    events: Sequence[int]
    phases: Sequence[PhaseMark]
    ops: Sequence[Op]
    replayed: Sequence[Op]


def _forecast(step: _Step, allocator: Allocator) -> Forecast:
    persistent = [s.size_bytes for s in step.persistent if s.birth is None]
    peaks = allocator.peaks(persistent, step.sizes, step.events)
    begun = [mark for mark in step.phases if mark.begin < peaks.at_event] or list(step.phases[:1])
    return Forecast(
        placement=step.placement,
        method=step.method,
        peak_allocated_bytes=peaks.allocated_bytes,
        persistent_bytes=peaks.persistent_bytes,
        retained_bytes=_retained(step),
        peak_phase=begun[-1].phase if begun else "",
        peak_reserved_bytes=peaks.reserved_bytes,
        step_flops=_flops(step.ops),
        replay_flops=_flops(step.replayed),
        replay_ops=len(step.replayed),
        replay_moved_bytes=sum(op.moved_bytes for op in step.replayed),
    )


def _retained(step: _Step) -> int:
    """Bytes allocated between the last forward's begin and its backward's, less what was released there."""
    forwards = [i for i, mark in enumerate(step.phases) if mark.phase == FORWARD]
    if not forwards:
        return 0
    begin = step.phases[forwards[-1]].begin
    ends = (mark.begin for mark in step.phases[forwards[-1] :] if mark.phase == BACKWARD)
    events = step.events[begin : next(ends, begin)]
    return sum(step.sizes[e - 1] if e > 0 else -step.sizes[-e - 1] for e in events)


def _flops(ops: Sequence[Op]) -> int | None:
    total = 0
    for op in ops:
        if op.flops is None:
            return None
        total += op.flops
    return total


def _parsed(placement: str | Placement) -> Placement:
    return parse_placement(placement) if isinstance(placement, str) else placement
