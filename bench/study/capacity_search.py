"""The search itself: asks each placement's state what it wants next, and does it, until none wants anything."""

from __future__ import annotations

from collections.abc import Collection

from bench.capacity.rows import is_searched, search_of
from bench.capacity.search import Ask, Done, Next, Try, next_step
from bench.capacity.types import DOES_NOT_FIT, FITS, Probe
from bench.study.capacity_forecast import forecast_sizes
from bench.study.capacity_probe import probe_size
from bench.study.capacity_session import Session


def search_all(session: Session, placements: Collection[str]) -> None:
    """Ends when each of `placements` is settled, or cannot be."""
    while True:
        open_steps = {text: step for text, step in _steps(session).items() if not isinstance(step, Done)}
        wanted = {text: step for text, step in open_steps.items() if text in placements}
        sizes = [size for step in wanted.values() if isinstance(step, Ask) for size in step.sizes]
        if sizes:
            # Of all that are still searched, since one recording of the step serves them all.
            forecast_sizes(session, open_steps.keys(), sizes)
            continue
        due = next(((text, step.size) for text, step in wanted.items() if isinstance(step, Try)), None)
        if due is None:
            return
        text, size = due
        label = f"{session.spec.axis.name} {size}: {text}"
        session.tell(label, done=len(placements) - len(wanted), total=len(placements))
        probe = probe_size(session, text, size)
        message = _told(session, probe)
        if message is not None:
            session.tell(label, message, done=len(placements) - len(wanted), total=len(placements))


def _steps(session: Session) -> dict[str, Next]:
    """Of every placement that is searched."""
    spec, records = session.spec, session.records
    return {
        entry.text: next_step(search_of(spec, records, entry.text, num_before=session.num_before))
        for entry in spec.placements
        if is_searched(spec, records, entry)
    }


def _told(session: Session, probe: Probe) -> str | None:
    """A line that stays on the screen: once a placement is settled, or where a probe failed."""
    name, text = session.spec.axis.name, probe.placement
    step = next_step(search_of(session.spec, session.records, text, num_before=session.num_before))
    if isinstance(step, Done):
        return f"{text}: {'fits at no size' if step.largest is None else f'{name} {step.largest}'} ({step.ended})"
    if probe.outcome in (FITS, DOES_NOT_FIT):
        return None
    return f"{text}: {name} {probe.size}: {probe.outcome}: {probe.reason}"
