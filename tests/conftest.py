from __future__ import annotations

import os

# Before anything loads OpenMP. Tests run side by side on few cores, where threads that spin for each other take most of
# the time; workers get the same by conf/device.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")

from pathlib import Path

import pytest

from bench.device.lock import DIRECTORY_VARIABLE


@pytest.fixture(autouse=True)
def _own_device_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests measure toy steps at once on one machine, which studies would wait for each other with."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "locks"))
