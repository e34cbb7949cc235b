"""Audits on the bench's step: the plain side once for all placements, on a smaller batch where it does not fit."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from bench.audit.audit import audit_step, plain_side
from bench.audit.options import GATE, AuditOptions
from bench.audit.plain import PlainSide
from bench.audit.verdict import Verdict
from bench.measure import is_out_of_memory, raise_memory_limit
from bench.spec import Controls
from bench.step import TrainingStep
from bench.step.build import batches_for
from bench.step.state import state_bytes
from bench.worker.bench import Bench

COPIES = 8
"""Of the step's state, at most, that an audit holds in host memory besides the step: where each trial starts, what the
steps of both sides came to (weights, buffers, gradients of each step), and what they are put back to."""


class CannotAuditError(RuntimeError):
    """The plain step fits with no batch, so that there is nothing to hold a placement against."""


class Auditing:
    """What one process finds out of the placements of one step. `close` puts the step's batch back."""

    def __init__(
        self, bench: Bench, controls: Controls, *, plain_fits: bool = True, options: AuditOptions = GATE
    ) -> None:
        self._bench = bench
        self._controls = controls
        self._options = options
        self._whole = bench.step.batches
        self._sizes = _sizes(bench, controls, plain_fits)
        self._plain: PlainSide | None = None
        self._note = ""
        self._too_large = "an audit" if plain_fits else "the plain step"

    def verdict(self, placement: str) -> Verdict:
        """
        Raises:
            CannotAuditError
            PlacementError: the placement names what is not in the model.
        """
        with self._room():
            while self._sizes:
                found = self._tried(placement)
                if found is not None:
                    return found
                self._next_size()
        raise CannotAuditError(f"{placement}: not audited, since the plain step fits with no batch")

    def close(self) -> None:
        self._plain = None
        if self._bench.step.batches is not self._whole:
            self._bench.step.batches = self._whole  # type: ignore[misc]

    def _tried(self, placement: str) -> Verdict | None:
        """None where memory ran out."""
        try:
            if self._plain is None:
                self._set_batch(self._sizes[0])
                self._bench.restore_state()
                self._plain = plain_side(self._bench.step, self._options)
            return audit_step(
                self._bench.step,
                placement,
                wiring=self._bench.wiring,
                plain=self._plain,
                batch_note=self._note,
            )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            gc.collect()

    def _next_size(self) -> None:
        self._plain = None
        self._sizes = self._sizes[1:]
        self._bench.recover()

    def _set_batch(self, size: int) -> None:
        whole = self._controls.workload
        if size == whole.micro_batch or not isinstance(self._bench.step, TrainingStep):
            return
        step = self._bench.step
        step.batches = batches_for(step, dataclasses.replace(whole, micro_batch=size, accumulation=1))
        self._note = (
            f"audited with one micro-batch of {size}, since {self._too_large} at {whole.micro_batch}"
            + (f" × {whole.accumulation}" if whole.accumulation > 1 else "")
            + " does not fit"
        )

    @contextmanager
    def _room(self) -> Iterator[None]:
        """What an audit copies is not the step's, so a bound on the step's memory does not hold for it."""
        limited = self._controls.device.memory_limit_bytes is not None
        extra = COPIES * state_bytes(self._bench.step) if limited else 0
        raise_memory_limit(extra, self._bench.device)
        try:
            yield
        finally:
            raise_memory_limit(-extra, self._bench.device)


def _sizes(bench: Bench, controls: Controls, plain_fits: bool) -> list[int]:
    """Micro-batches to try, the largest first: the whole one where the plain step fits, then halves down to 1.
    Somebody's own step has the batch that it has."""
    size = controls.workload.micro_batch
    sizes = [size] if plain_fits else []
    if not isinstance(bench.step, TrainingStep):
        return sizes
    while size > 1:
        size //= 2
        sizes.append(size)
    return sizes
