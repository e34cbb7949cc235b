"""A thread that reads samplers and appends what they say to `telemetry.jsonl`. It sleeps between reads, and nothing
that goes wrong in it reaches the study."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from bench.study.telemetry.sampler import RECORDER, Sampler, Scalar
from bench.study.telemetry.store import TELEMETRY_FILE, format_line

FLUSH_S = 1.0
FAILURES_MAX = 5
"""Failed reads in a row after which a sampler is given up."""
LIMIT_BYTES = 32 * 2**20
"""`telemetry.jsonl` never grows beyond this; see `stretch`."""
RESERVE_BYTES = 4096
"""Kept free for what the recorder says of itself."""
SLACK_S = 1e-3
"""A read that is due so soon is done at once."""
STOP_S = 5.0
"""A read that hangs in a driver is not waited for longer than this."""


@dataclass(kw_only=True)
class _Track:
    sampler: Sampler
    due: float
    failures: int = 0


class Recorder:
    """Records between `__enter__` and `__exit__`, in a thread of its own. Tests call `step` with clocks of their own
    instead."""

    def __init__(
        self,
        directory: Path,
        samplers: Sequence[Sampler],
        facts: Mapping[str, Scalar],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        """
        Args:
            directory: of the study.
            samplers: closed at the end.
            facts: written at the start: what is watched, and what cannot be.
            monotonic: clock that reads are scheduled by.
            unix: clock of the samples, the same as that of the records.
            limit_bytes: size that the file never reaches.
        """
        self._monotonic, self._unix, self._limit = monotonic, unix, limit_bytes
        self._samplers = tuple(samplers)
        self._tracks = [_Track(sampler=sampler, due=monotonic()) for sampler in samplers]
        self._path = directory / TELEMETRY_FILE
        self._file: BinaryIO | None = None
        self._size = 0
        self._buffer: list[bytes] = []
        self._flushed = monotonic()
        self._samples = 0
        self._began, self._cpu_s = monotonic(), 0.0
        self._facts = facts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            self.begin()
            while not self._stop.wait(self.step()):
                pass
            self.end()
        except OSError:
            return  # a full disk or a lost directory: the study will meet it on its own
        finally:
            self._close()

    def begin(self) -> None:
        """Raises OSError where the file cannot be opened."""
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._cpu_s = time.thread_time()
        self._say({"event": "start", **self._facts})

    def step(self) -> float:
        """Reads the samplers that are due; returns the seconds until one is due again.

        Raises:
            OSError: the file cannot be written to.
        """
        factor = stretch(self._size, self._limit)
        if factor is None:
            self._flush()
            return FLUSH_S
        for track in list(self._tracks):
            if track.due <= self._monotonic() + SLACK_S:
                self._read(track)
                track.due = self._monotonic() + factor * track.sampler.period_s
        now = self._monotonic()
        if now - self._flushed >= FLUSH_S:
            self._flush()
        return max(0.0, min((track.due for track in self._tracks), default=now + FLUSH_S) - now)

    def end(self) -> None:
        """Writes what is left and what the recorder itself took, and closes everything."""
        wall_s = self._monotonic() - self._began
        self._say(
            {
                "event": "end",
                "samples": self._samples,
                "wall_s": round(wall_s, 3),
                "cpu_s": round(time.thread_time() - self._cpu_s, 4),
                "full": str(stretch(self._size, self._limit) is None),
            }
        )
        self._flush()
        self._close()

    def _close(self) -> None:
        for sampler in self._samplers:
            with suppress(Exception):
                sampler.close()
        self._samplers = ()
        if self._file is not None:
            self._file.close()

    def _read(self, track: _Track) -> None:
        try:
            values = track.sampler.read()
            line = format_line(self._unix(), track.sampler.source, values) if values else b""
        except Exception as error:  # drivers and kernels fail in ways of their own
            track.failures += 1
            if track.failures >= FAILURES_MAX:
                self._tracks.remove(track)
                why = f"{track.sampler.source} telemetry was given up: {type(error).__name__}: {error}"
                self._say({"event": "failure", "problem": why})
            return
        track.failures = 0
        if line and self._size + len(line) < self._limit - RESERVE_BYTES:
            self._samples += 1
            self._put(line)
        elif line:
            self._size = self._limit  # full: also for what would still fit, so that there is one end

    def _say(self, values: Mapping[str, Scalar]) -> None:
        self._put(format_line(self._unix(), RECORDER, values))

    def _put(self, line: bytes) -> None:
        self._buffer.append(line)
        self._size += len(line)

    def _flush(self) -> None:
        self._flushed = self._monotonic()
        if self._buffer and self._file is not None:
            data = b"".join(self._buffer)
            self._buffer.clear()
            self._file.write(data)


def stretch(size_bytes: int, limit_bytes: int = LIMIT_BYTES) -> int | None:
    """By what factor periods grow as the file fills up: 1 up to half of the limit, 4 up to three quarters, then 16;
    None when it is full. At a GPU's full rate that is some three hours, then six more, then a day."""
    if size_bytes < limit_bytes / 2:
        return 1
    if size_bytes < limit_bytes * 3 / 4:
        return 4
    return 16 if size_bytes < limit_bytes else None
