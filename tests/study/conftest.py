from __future__ import annotations

from pathlib import Path

import pytest

from bench.records import study_path
from bench.spec import StudySpec
from bench.study import run_study
from tests.toy_study import toy_study


@pytest.fixture(scope="session")
def unlocked_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudySpec, Path]:
    """A study measured where no device lock can be made, and its directory. Tests read it and leave it as it is."""
    folder = tmp_path_factory.mktemp("unlocked")
    (folder / "file").touch()
    study = toy_study(("none",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_LOCK_DIR", str(folder / "file/locks"))
        run_study(study, folder, watch=lambda event: None)
    return study, study_path(folder, study)
