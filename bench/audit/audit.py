"""`audit_step`: is a placement's step the plain step? For a step as the harness runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.audit.judge import Replayed, judge
from bench.audit.options import AuditOptions
from bench.audit.plain import PlainSide, Trial
from bench.audit.subject import Subject, of_step
from bench.audit.verdict import Verdict
from bench.audit.words import RESTORE
from bench.placement.applying import apply
from bench.placement.types import Placement
from bench.placement.wiring import Wiring
from bench.step.interface import Step


def plain_side(step: Step, options: AuditOptions | None = None) -> PlainSide:
    """The plain side of `step`, for all of its placements. It takes the step as it is now for the state to start from,
    and holds copies of it in host memory."""
    return PlainSide(of_step(step), options or AuditOptions())


def audit_step(
    step: Step,
    placement: Placement | str,
    *,
    wiring: Wiring | None = None,
    plain: PlainSide | None = None,
    options: AuditOptions | None = None,
    batch_note: str = "",
) -> Verdict:
    """Proves that `step` under `placement` is the plain step, or says where it is not. Afterwards model, optimizer,
    Python state and random generators are as before; gradients are freed.

    Args:
        step: with nothing on its model.
        wiring: of the placement's spans; recorded where it is missing.
        plain: what `plain_side` gave for this step, so that the plain steps are run once for all placements.
        options: of a plain side of its own; `plain` has its own.
        batch_note: said in the verdict, where the step's batch is not the one that will be trained with.

    Raises:
        PlacementError: the placement names what is not in the model.
        RuntimeError: out of memory.
    """
    side = plain_side(step, options) if plain is None else plain
    replayed = placed(side.subject, placement, wiring)
    return judge(side, replayed, str(placement), batch_note, restores=RESTORE in str(placement))


def placed(subject: Subject, placement: Placement | str, wiring: Wiring | None) -> Replayed:
    """The subject with `placement` on its model, for the time of a `with` block in each trial."""

    @contextmanager
    def replayed(_trial: Trial) -> Iterator[Subject]:
        with apply(subject.model, placement, forward=subject.forward, wiring=wiring):
            yield subject

    return replayed
