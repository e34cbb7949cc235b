"""How a worker of a capacity search is asked and answers: JSON on stdin, and JSON lines on stdout as things happen.

Each line is a mapping with one key, which says what it is about (`stage`, `probe`, `sample` …). So a parent knows
what a process was at when it died, and has every sample that was taken before.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from bench.spec import SpecError, from_mapping
from bench.worker.setup import die_with_parent

R = TypeVar("R")
GAVE_UP, REFUSED = 1, 2


class Lines:
    """The process's output, for answers alone: what libraries print there goes to stderr."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
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
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    die_with_parent()
    lines = Lines()
    try:
        work(from_mapping(kind, json.load(sys.stdin)), lines)
    except SpecError as error:
        return _end(REFUSED, str(error))
    except Exception as error:
        with suppress(OSError):
            traceback.print_exc()
        return _end(GAVE_UP, f"gave up: {type(error).__name__}: {error}")
    return 0


def _end(code: int, message: str) -> int:
    with suppress(OSError):
        print(f"bench.worker: {' '.join(message.split())}", file=sys.stderr)
    return code
