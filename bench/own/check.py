"""`check`: does a placement do on this model and step what it was chosen for? Effect, peak and validity in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.audit.replay import audit_replay
from bench.audit.verdict import Verdict
from bench.measure import MemoryReading, is_out_of_memory, measure_memory
from bench.own.controls import named_precision
from bench.own.kept import Kept, PythonRandom
from bench.own.observe import Observed, observe
from bench.own.step import OwnStep, OwnStepFunction
from bench.placement import NONE, Placement, check_modules, parse_placement
from bench.placement.applying import apply, self_checkpointing
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.fingerprint import differences
from bench.placement.origin import Origin
from bench.placement.wiring import Wiring, record_wiring
from bench.records import RegionEffect
from bench.spec import SpecError
from bench.step import Stateful
from bench.step.precision import PRECISIONS
from bench.step.state import persistent_tensors
from bench.worker.effect import NoEffectError, check_effect, check_retained, region_effects

MIB = 2**20
PEAK_TOLERANCE = 0.02
"""Share of the study's peak by which this one may differ without a word."""
STEPS = 2
"""That a reading of memory takes."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a placement does on somebody's own model and step. It is printed as text."""

    placement: Placement
    effects: tuple[RegionEffect, ...]
    """First passes and replays of each region in two steps."""
    no_effect: str | None
    """Why the placement does not do what it says; None where it does."""
    peak_bytes: int
    plain_peak_bytes: int | None
    """None where the plain step does not fit."""
    persistent_bytes: int
    """Allocated between steps, whatever is replayed."""
    verdict: Verdict | None
    """Is the replayed step the plain step? None where the audit was not asked for, or found no room."""
    notes: tuple[str, ...] = ()
    """What differs from the study that the placement was chosen from, and what could not be looked at."""

    @property
    def is_good(self) -> bool:
        """It took effect, and its replay is valid."""
        return self.no_effect is None and self.verdict is not None and self.verdict.may_stand_on_a_frontier

    def __str__(self) -> str:
        replayed = sum(effect.replays > 0 for effect in self.effects)
        effect = f"{replayed} of {len(self.effects)} regions replayed" if self.effects else "nothing to replay"
        lines = [
            f"placement  {self.placement}",
            f"effect     {effect if self.no_effect is None else 'none: ' + self.no_effect}",
            f"peak       {self._peak()}",
            f"validity   {'not audited' if self.verdict is None else self._validity()}",
        ]
        return "\n".join(lines + [f"note       {note}" for note in self.notes])

    def _peak(self) -> str:
        peak = f"{self.peak_bytes / MIB:,.1f} MiB"
        if self.plain_peak_bytes is None:
            return f"{peak}; the plain step does not fit"
        saved, moves = self.plain_peak_bytes - self.peak_bytes, self.plain_peak_bytes - self.persistent_bytes
        share = f", {saved / moves:.1%} of what could move" if moves > 0 else ""
        return f"{peak}, plain {self.plain_peak_bytes / MIB:,.1f} MiB: {saved / MIB:,.1f} MiB less{share}"

    def _validity(self) -> str:
        return str(self.verdict).removeprefix(f"{self.placement}: ")


def check(
    model: nn.Module,
    placement: Placement | str,
    step: OwnStepFunction,
    *,
    optimizer: torch.optim.Optimizer,
    batch: Any = None,
    state: Sequence[Stateful] = (),
    precision: str | None = None,
    audit: bool = True,
) -> Check:
    """Tries `placement` on a person's own model: counts its replays, reads the peak of a step with it and without, and
    audits its replay. Afterwards model, optimizer, `state` and random generators are as before, and the placement is
    off; gradients are freed. It takes about a dozen steps, and the audit some 80 more.

    Args:
        model: in training mode, with nothing on it.
        step: one whole training step (forward, backward, one optimizer step) that can be repeated; as for `measure`.
        optimizer: that takes the step.
        batch: the tensors that the step uses; on the CPU they are counted only where they are given.
        state: what else the step changes: schedules, a GradScaler.
        precision: as for `measure`; None reads weights and autocast.
        audit: False leaves the audit out, which takes most of the steps.

    Raises:
        SpecError: an argument is wrong, or the step is not one that can be repeated.
        UnsupportedPlacementError: the model already checkpoints itself, or cannot take the placement.
        LeakingError: a step leaves more memory allocated than it began with.
    """
    placement = parse_placement(placement) if isinstance(placement, str) else placement
    why = self_checkpointing(model)
    if why:
        raise UnsupportedPlacementError(f"the plain model already checkpoints itself: {why}")
    if not model.training:
        raise SpecError("model: it is in eval mode; call model.train()")
    check_modules([placement], {name for name, _ in model.named_modules()})
    device = next(model.parameters()).device
    others = (*state, PythonRandom())
    kept = Kept(model, optimizer, others)
    seen = observe(step, model, optimizer, [NONE.text, placement.text], device, kept)
    named = PRECISIONS[named_precision(model, seen.autocast, precision)]
    own = OwnStep(
        step,
        model=model,
        optimizer=optimizer,
        device=device,
        precision=named,
        num_micro_batches=seen.micro_batches,
        batch=batch,
        others=others,
    )
    try:
        units = sorted({unit for region in placement.regions for unit in region.units})
        wiring = record_wiring(model, units, own.forward)
        kept.restore()
        plain = _plain(own, kept)
        kept.restore()
        reading, effects, no_effect = _placed(own, placement, wiring, plain, seen.micro_batches)
        kept.restore()
    finally:
        own.close()
        kept.restore()
    # On the CPU a batch that is not given is not counted, so its peak is not the study's.
    peak_bytes = None if device.type == "cpu" and batch is None else reading.peak_bytes
    verdict, notes = None, [] if placement.origin is None else _notes(model, placement.origin, seen, peak_bytes)
    if audit:
        try:
            verdict = audit_replay(model, step, placement=placement.text, optimizer=optimizer, state=state)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            notes.append("the audit runs the plain step too, which does not fit: audit a smaller batch")
    return Check(
        placement=placement,
        effects=effects,
        no_effect=no_effect,
        peak_bytes=reading.peak_bytes,
        plain_peak_bytes=None if plain is None else plain.peak_bytes,
        persistent_bytes=reading.persistent_bytes,
        verdict=verdict,
        notes=tuple(notes),
    )


def _plain(own: OwnStep, kept: Kept) -> MemoryReading | None:
    """None where it does not fit."""
    try:
        return measure_memory(own.run, lambda: persistent_tensors(own), own.device)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    kept.restore()  # out of the handler: the exception's frames hold the tensors of the step that failed
    return None


def _placed(
    own: OwnStep, placement: Placement, wiring: Wiring, plain: MemoryReading | None, micro_batches: int
) -> tuple[MemoryReading, tuple[RegionEffect, ...], str | None]:
    """(its memory, what its regions did, why it has no effect)."""
    # As text: what differs from the placement's study is told in the notes, and once.
    with apply(own.model, placement.text, wiring=wiring) as applied:
        reading = measure_memory(own.run, lambda: persistent_tensors(own), own.device)
        try:
            check_effect(applied, wiring, STEPS, micro_batches)
            if plain is not None and placement.regions:
                check_retained(reading.retained_bytes, plain.retained_bytes)
        except NoEffectError as error:
            return reading, region_effects(applied), str(error)
        return reading, region_effects(applied), None


def _notes(model: nn.Module, origin: Origin, seen: Observed, peak_bytes: int | None) -> list[str]:
    notes = list(differences(model, origin))
    if seen.micro_batch is not None and seen.micro_batch != origin.micro_batch:
        notes.append(f"the micro-batch is {seen.micro_batch}, the study's was {origin.micro_batch}")
    autocast = PRECISIONS[origin.precision].autocast if origin.precision in PRECISIONS else None
    if seen.autocast != autocast:
        notes.append(f"autocast is {_dtype(seen.autocast)}, the study trained in {origin.precision}")
    there = origin.peak_allocated_bytes
    if there is not None and peak_bytes is not None and abs(peak_bytes - there) > PEAK_TOLERANCE * there:
        sizes = f"{peak_bytes / MIB:,.1f} MiB, the study's was {there / MIB:,.1f} MiB"
        notes.append(f"the peak is {sizes} ({peak_bytes / there - 1:+.0%})")
    return [f"other than in {origin.study}: {note}" for note in notes]


def _dtype(dtype: torch.dtype | None) -> str:
    return "off" if dtype is None else str(dtype).removeprefix("torch.")
