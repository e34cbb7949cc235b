"""Facts that a script of this folder prints as JSON; it registers a device for good, so it has a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def facts_of(script: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / script)],
        cwd=HERE.parents[1],
        env={"PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
