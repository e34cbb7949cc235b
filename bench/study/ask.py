"""A question to a process of its own that loads torch: JSON in, JSON on the last line that it prints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any, TypeVar

from bench.spec import Controls, SpecError, from_mapping
from bench.study.supervise import WorkerError, worker_environment
from bench.study.worker_log import PROFILER_NOISE, innermost_line

A = TypeVar("A")

LINES_TOLD = 12
"""Last lines of what a process complained about that an error repeats."""


def ask_process(module: str, request: Any, controls: Controls, kind: type[A], *, what: str, timeout_s: float) -> A:
    """What `python -m MODULE` answers to `request`, in the environment that a worker of these controls has.

    Args:
        kind: of the answer.
        what: the process in an error's words (`the probe`).

    Raises:
        SpecError: the answer is `{"error": …}`: what was asked for cannot be had.
        WorkerError: it broke, or gave no answer in time.
    """
    try:
        process = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-m", module],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=worker_environment(controls),
            check=False,
        )
        answer = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise WorkerError(f"{what} {_ending(process.returncode, process.stderr)}") from None
    except subprocess.TimeoutExpired:
        raise WorkerError(f"{what} did not answer within {timeout_s:g} s") from None
    if not isinstance(answer, dict):
        raise WorkerError(f"{what} answered {answer!r}, expected a mapping")
    if "error" in answer:
        raise SpecError(answer["error"])
    return from_mapping(kind, answer)


def _ending(exit_code: int, complaints: str) -> str:
    """How it ended: of one that a signal ended the line that it was at, of another the last that it said."""
    lines = [line for line in complaints.splitlines() if line.strip() and not line.startswith(PROFILER_NOISE)]
    if exit_code >= 0:
        return "\n".join((f"ended with exit code {exit_code}:", *lines[-LINES_TOLD:]))
    where = innermost_line(lines, "current")
    return f"died by {signal.strsignal(-exit_code)}{f' in {where}' if where else ''}"
