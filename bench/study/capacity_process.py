"""A worker of a capacity search: asked by JSON, followed line by line, and judged when it ends."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.spec import Controls
from bench.study.blame import Ending
from bench.study.supervise import DONE, Watch, raise_what_it_said, run_watched

POLL_S = 0.5
OnLine = Callable[[str, Any], None]
"""Called with what a line is about and what it says."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    ending: Ending
    stage: str
    """The last that the worker said it entered."""

    @property
    def ended_well(self) -> bool:
        return self.ending.exit_code == DONE and self.ending.silence is None


def run_asked(
    module: str, request: Mapping[str, Any], controls: Controls, directory: Path, timeout_s: float, on_line: OnLine
) -> Heard:
    """Runs `python -m MODULE` on a request, in the environment that a worker of these controls has; what it complains
    of goes to the directory's log.

    Args:
        timeout_s: a worker that is silent for so long is ended.

    Raises:
        SpecError: the worker refused the request.
        WorkerError: it gave up for a reason that is no placement's.
        CannotWriteError: the log cannot be written to.
    """
    listening = _Listening(on_line)

    def follow(process: subprocess.Popen[bytes], watch: Watch) -> None:
        listening.follow(process, watch, request)

    ending = run_watched(["-X", "faulthandler", "-m", module], controls, directory, timeout_s, follow, is_asked=True)
    raise_what_it_said(ending, directory)
    return Heard(ending=ending, stage=listening.stage)


class _Listening:
    def __init__(self, on_line: OnLine) -> None:
        self.stage = "build"
        self._on_line = on_line
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def follow(self, process: subprocess.Popen[bytes], watch: Watch, request: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(request).encode())
        while True:
            try:
                line = self._lines.get(timeout=POLL_S)
            except queue.Empty:
                if watch.has_ended_it():
                    return
                continue
            if line is None:
                while process.poll() is None and not watch.has_ended_it():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(POLL_S)
                return
            watch.heard()
            self._hear(line)

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _hear(self, line: bytes) -> None:
        try:
            ((about, value),) = json.loads(line).items()
        except (ValueError, AttributeError):
            return  # torn by a kill
        if about == "stage":
            self.stage = str(value)
        else:
            self._on_line(about, value)
