"""Modules that take data from somewhere: what a replay is handed is the next of it, not the same again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.audit.blocks import Block

ITEMS: list[float] = [float(n) for n in range(1, 100)]


def stream() -> Iterator[float]:
    number = 0.0
    while True:
        number += 1.0
        yield number


STREAM = stream()


class Feed:
    def __init__(self) -> None:
        self.at = 0

    def take(self) -> float:
        self.at += 1
        return float(self.at)


class Fed(Block):
    def __init__(self) -> None:
        super().__init__()
        self.feed = Feed()

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.feed.take()


class Trickling(Block):
    """So little comes in that the steps are the same to rounding."""

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1.0 + 1e-7 * next(STREAM))


class Iterating(Block):
    def __init__(self, numbers: Iterator[Any]) -> None:
        super().__init__()
        self.numbers = numbers

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(next(self.numbers))


class Reading(Block):
    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.file.readline())


class Loading(Block):
    """Takes what an object of a library hands out, which Python cannot copy."""

    def __init__(self, rows: Iterator[Any]) -> None:
        super().__init__()
        self.rows = rows

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        (number,) = next(self.rows)
        return x * float(number)


class Popping(Block):
    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x * ITEMS.pop()
