"""When the rounds of an execution may end. One function, used by the worker and by the self-test's simulated
studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Widths = Mapping[str, float | None]
"""Placement → half-width reached, as a share; None while there is no interval."""

TIGHT_ROUNDS = 2
"""Rounds in a row that must be tight: the first time may be luck, and stopping at luck makes intervals too narrow."""
MIN_STALLED_ROUNDS = 64
"""Rounds before an interval may be said to have stopped shrinking. With 24, a burst of noise in the second half ended
up to a fifth of simulated studies too soon."""
STALLED_RATIO = 1.0
"""An interval over twice the rounds is 0.71 as wide where rounds are alike; from this share on it does not shrink."""

TIGHT, STALLED, ROUNDS = "tight", "not getting tighter", "rounds"


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    target_half_width: float
    rounds_min: int
    rounds_max: int


def stop_reason(history: Sequence[Widths], rule: StoppingRule) -> str | None:
    """Why the rounds end now, or None where they go on.

    Args:
        history: the half-widths after each round so far, the latest last; all placements but the reference.
    """
    rounds = len(history)
    if rounds >= max(rule.rounds_min, TIGHT_ROUNDS) and all(
        _is_tight(widths, rule) for widths in history[-TIGHT_ROUNDS:]
    ):
        return TIGHT
    if rounds >= rule.rounds_max:
        return ROUNDS
    if rounds >= max(rule.rounds_min, MIN_STALLED_ROUNDS) and _is_stalled(history, rule):
        return STALLED
    return None


def _is_tight(widths: Widths, rule: StoppingRule) -> bool:
    return all(width is not None and width <= rule.target_half_width for width in widths.values())


def _is_stalled(history: Sequence[Widths], rule: StoppingRule) -> bool:
    """Whether no interval that is still wide has shrunk since half as many rounds."""
    now, before = history[-1], history[len(history) // 2 - 1]
    wide = [text for text, width in now.items() if width is None or width > rule.target_half_width]
    for text in wide:
        width, earlier = now[text], before.get(text)
        if width is None or earlier is None or width < STALLED_RATIO * earlier:
            return False
    return bool(wide)
