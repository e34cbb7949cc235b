"""What the worker's device and the model are, asked of a process of its own: the parent imports no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from bench.spec import ChainInfo, Controls, Facts, SpecError, from_mapping, to_mapping
from bench.study.worker_process import WorkerError, worker_environment

TIMEOUT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    facts: Facts
    chains: tuple[ChainInfo, ...]
    modules: tuple[str, ...]
    """Qualified names of the model's modules."""
    ops: tuple[str, ...]
    """Names that a policy can keep: groups and aten ops."""
    capacity_bytes: int | None
    """Memory of the device."""


def probe_worker(controls: Controls) -> Probe:
    """Raises SpecError where the model or the device cannot be had as asked, WorkerError where the probe broke."""
    try:
        process = subprocess.run(
            [sys.executable, "-m", "bench.worker.probe"],
            input=json.dumps(to_mapping(controls)),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=worker_environment(controls),
            check=False,
        )
        answer = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise WorkerError(f"the probe ended with exit code {process.returncode}:\n{process.stderr.strip()}") from None
    except subprocess.TimeoutExpired:
        raise WorkerError(f"the probe did not answer within {TIMEOUT_S:g} s") from None
    if "error" in answer:
        raise SpecError(answer["error"])
    return from_mapping(Probe, answer)
