"""Memory at every moment of a step, so that what regions change can be added up.

A moment is an item of the plain step's script (`bench.trace.rearrange_script`): an op, a tensor saved or taken out, the
end of a hold. Every placement passes through the same moments; what it replays happens inside the moment that asks for
it. A region changes the high-water mark of each moment by the same bytes whatever other regions are there, as long as
they do not touch: so the memory of a placement is the plain step's plus a sum of changes, one a region. Where that does
not hold (a tensor that two regions share), the exact forecast of the whole placement says so, and the planner mends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.trace.rearrange import Rearranged

Line = npt.NDArray[np.int64]
"""Bytes at each moment, shape (moments,)."""


def high_water(step: Rearranged, persistent_bytes: int) -> Line:
    """The most that is allocated during each moment, the persistent state included."""
    events, sizes = np.asarray(step.events, dtype=np.int64), np.asarray(step.sizes, dtype=np.int64)
    deltas = sizes[np.abs(events) - 1] * np.sign(events)
    level = np.concatenate([[persistent_bytes], persistent_bytes + np.cumsum(deltas)])
    begins = np.array(_filled(step.begins), dtype=np.int64)
    order = np.argsort(begins, kind="stable")
    starts = begins[order]
    ends = np.concatenate([starts[1:], [len(events)]])
    most = np.maximum(np.maximum.reduceat(level, starts), level[ends])  # the first part leaves out the level at the end
    line = np.empty(len(starts), dtype=np.int64)
    line[order] = most
    return line


def _filled(begins: Iterable[int | None]) -> list[int]:
    """A moment that is passed over is where the one before it is."""
    filled, last = [], 0
    for begin in begins:
        last = last if begin is None else begin
        filled.append(last)
    return filled


@dataclass(frozen=True, eq=False)
class Change:
    """What a region does to the high-water mark of each moment: constant between few of them."""

    moments: npt.NDArray[np.int64]
    """At which it takes a new value, the first of them 0; ascending."""
    bytes: npt.NDArray[np.int64]
    """From each of those moments on."""

    @classmethod
    def between(cls, plain: Line, placed: Line) -> Change:
        change = placed - plain
        turns = np.concatenate([[0], 1 + np.flatnonzero(np.diff(change))])
        return cls(turns, change[turns])

    def at(self, moment: int) -> int:
        return int(self.bytes[np.searchsorted(self.moments, moment, side="right") - 1])

    def line(self, num_moments: int) -> Line:
        return np.repeat(self.bytes, np.diff(np.concatenate([self.moments, [num_moments]])))

    def add_to(self, line: Line) -> None:
        line += self.line(len(line))

    def moved(self, period: Line, by: int) -> Change | None:
        """The same change by an equal region `by` periods later; None where its parts would pass each other.

        Args:
            period: moments between equal regions at each moment, shape (moments,).
        """
        later = self.moments + by * period[self.moments]
        later[0] = 0
        if (np.diff(later) <= 0).any() or later[-1] >= len(period):
            return None
        return Change(later, self.bytes)
