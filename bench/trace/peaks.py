"""From the events of a step to the peaks that an allocator would report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Peaks:
    allocated_bytes: int
    """High-water mark, what was there before the step included."""
    at_event: int
    """Events that had happened when it was reached first."""
    persistent_bytes: int
    """Allocated before the step."""
    reserved_bytes: int | None = None
    """Taken from the driver; None where the allocator keeps nothing for later."""


class Allocator(Protocol):
    def peaks(self, persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> Peaks:
        """
        Args:
            persistent: bytes of each block that is there before the step, in the order of their allocation.
            sizes: bytes of each storage, by its index.
            events: storage s allocated: s + 1; released: -(s + 1).
        """


class ExactAllocator:
    """Blocks as large as asked for, as on the CPU."""

    def peaks(self, persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> Peaks:
        start = sum(persistent)
        line = list(accumulate((sizes[e - 1] if e > 0 else -sizes[-e - 1] for e in events), initial=start))
        most = max(line)
        return Peaks(allocated_bytes=most, at_event=line.index(most), persistent_bytes=start)
