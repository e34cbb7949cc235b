"""An exclusive lock on a file or folder that outlives no process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.track.errors import TrackError

POLL_S = 0.05


@contextmanager
def exclusive(path: Path, *, wait_s: float, holder: str) -> Iterator[None]:
    """Holds `flock` on `path`, which is created as a file where it does not exist.

    Raises:
        TrackError: `holder` (who else may have it, in words) did not let go within `wait_s` seconds.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _acquire(descriptor, path, wait_s, holder)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, wait_s: float, holder: str) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TrackError(f"{path} is still locked by {holder} after {wait_s:g} s") from None
            time.sleep(POLL_S)
