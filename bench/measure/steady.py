"""When warm-up may end."""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 2
"""Steps in each of the two windows compared."""
SETTLED_SHARE = 0.05
"""The later window may be at most this share faster than the earlier: a step that still gets faster is warming."""


def has_settled(step_times_ms: Sequence[float], allocator_states: Sequence[tuple[int, ...]]) -> bool:
    """Whether the fastest of the last two steps is hardly faster than the fastest of the two before, and the allocator
    held the same after each of the last two.

    The minimum of a window, since other load on the machine only ever adds time.
    """
    return _time_has_settled(step_times_ms) and len(set(allocator_states[-WINDOW:])) == 1


def _time_has_settled(step_times_ms: Sequence[float]) -> bool:
    if len(step_times_ms) < 2 * WINDOW:
        return False
    before, after = step_times_ms[-2 * WINDOW : -WINDOW], step_times_ms[-WINDOW:]
    return min(after) >= (1 - SETTLED_SHARE) * min(before)
