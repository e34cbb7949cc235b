"""Exceptions to outcomes."""

from __future__ import annotations

from bench.measure import is_out_of_memory
from bench.measure.memory import LeakingError
from bench.placement.errors import UnsupportedPlacementError
from bench.step import UnsupportedControlsError
from bench.worker.effect import NoEffectError, OtherStepError, UnstableStepError

REASON_LENGTH = 500


def outcome_of(error: BaseException) -> tuple[str, str]:
    """(outcome, reason) of an exception that ended a placement's measurement."""
    if isinstance(error, (UnsupportedPlacementError, UnsupportedControlsError)):
        return "unsupported", _first_paragraph(error)
    if isinstance(error, NoEffectError):
        return "no-effect", str(error)
    if isinstance(error, OtherStepError):
        return "invalid", str(error)
    if isinstance(error, UnstableStepError):
        return "unstable", str(error)
    if isinstance(error, LeakingError):
        return "leaking", str(error)
    if is_out_of_memory(error):
        return "oom", _first_paragraph(error)
    if isinstance(error, SystemExit):
        return "error", f"something in the step called sys.exit({error.code!r})"
    return "error", f"{type(error).__name__}: {_first_paragraph(error)}"


def _first_paragraph(error: BaseException) -> str:
    text = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"
