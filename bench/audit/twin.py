"""The twin of a placement that was turned away: the same regions with @restore, where that may be the cure."""

from __future__ import annotations

from bench.audit.verdict import ATTRIBUTE, HOOK, RNG, STATE
from bench.placement import Placement, PlacementError, placement_id
from bench.records import AuditRecord
from bench.spec import PlacementEntry

RESTORABLE = (STATE, ATTRIBUTE, RNG, HOOK)
"""Kinds of fault where state moves twice, so that putting it back may be the cure; the twin's own audit decides."""


def twin_to_try(text: str, verdict: AuditRecord) -> str | None:
    """The twin, or None where the placement is valid or @restore cannot mend it."""
    if verdict.is_valid or not verdict.findings or verdict.findings[0]["kind"] not in RESTORABLE:
        return None
    try:
        return Placement.parse(text).restored().text
    except PlacementError:
        return None  # its regions cannot be restored


def twin_entry(text: str, twin: str) -> PlacementEntry:
    """Of `twin`, which stands for `text`."""
    return PlacementEntry(text=twin, id=placement_id(twin), generators=(f"twin of {text}",), twin_of=text)
