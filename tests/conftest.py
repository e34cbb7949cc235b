from __future__ import annotations

from pathlib import Path

import pytest

from bench.device.lock import DIRECTORY_VARIABLE


@pytest.fixture(autouse=True)
def _own_device_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests measure toy steps at once on one machine, which studies would wait for each other with."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "locks"))
