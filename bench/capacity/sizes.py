"""The sizes that a search may try, in order: multiples of a step up to a bound, or the divisors of a global batch."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes by index, from 0."""

    multiple: int
    largest: int
    divisors: tuple[int, ...] = ()
    """In place of all multiples where not empty, smallest first."""

    @property
    def count(self) -> int:
        return len(self.divisors) or self.largest // self.multiple

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise IndexError(f"size {index} of {self.count}")
        return self.divisors[index] if self.divisors else (index + 1) * self.multiple

    def at_most(self, size: float) -> int:
        """Index of the largest size that is not above `size`; -1 where all are."""
        if self.divisors:
            return bisect_right(self.divisors, size) - 1
        return min(int(size // self.multiple), self.count) - 1

    def has(self, size: int) -> bool:
        index = self.at_most(size)
        return index >= 0 and self[index] == size


def divisors_of(number: int, multiple: int = 1) -> tuple[int, ...]:
    """Divisors that are multiples of `multiple`, smallest first."""
    return tuple(size for size in range(multiple, number + 1, multiple) if number % size == 0)
