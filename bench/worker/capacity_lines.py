"""How a worker of a capacity search is asked and answers: JSON on stdin, and JSON lines on stdout as things happen.

Each line is a mapping with one key, which says what it is about (`stage`, `probe`, `sample` …). So a parent knows
what a process was at when it died, and has every sample that was taken before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from bench.spec import from_mapping
from bench.worker.answering import own_stdout
from bench.worker.ending import run_to_its_end

R = TypeVar("R")


class Lines:
    """The process's output, for answers alone: what libraries print there goes to stderr."""

    def __init__(self) -> None:
        self._out = own_stdout()
        self.stage = "build"

    def tell(self, about: str, value: Any) -> None:
        self._out.write(json.dumps({about: value}, allow_nan=False) + "\n")
        self._out.flush()

    def enter(self, stage: str) -> None:
        """Says what comes now; of several in a row the first."""
        if stage != self.stage:
            self.stage = stage
            self.tell("stage", stage)


def serve(kind: type[R], work: Callable[[R, Lines], None]) -> int:
    """Reads a `kind` and does `work` with it; returns the exit code."""

    def answer() -> int:
        work(from_mapping(kind, json.load(sys.stdin)), Lines())
        return 0

    return run_to_its_end(answer)
