"""Where backward begins and ends in a step that is not ours: seen at torch's own entry to it.

`loss.backward()`, a loss scaler's and Accelerate's all go through `torch.autograd.backward`. It is replaced for the
time of a `with` block, never while steps are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class _StoppedAtBackward(BaseException):
    """Ends a step whose forward alone is wanted. Not an Exception, so that the step's own handlers let it through."""


@contextmanager
def backward_watched(begins: Callable[[], None], ends: Callable[[], None]) -> Iterator[None]:
    """Calls `begins` before and `ends` after every outermost backward; one inside another (reentrant checkpointing) is
    part of it."""
    original = torch.autograd.backward
    depth = 0

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth == 0:
            begins()
        depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            depth -= 1
            if depth == 0:
                ends()

    torch.autograd.backward = watched
    try:
        yield
    finally:
        torch.autograd.backward = original


def until_backward(step: Callable[[], object]) -> None:
    """Runs `step` up to its first backward."""

    def stop() -> None:
        raise _StoppedAtBackward

    try:
        with backward_watched(stop, lambda: None):
            step()
    except _StoppedAtBackward:
        pass
