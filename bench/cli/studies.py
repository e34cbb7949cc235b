"""Finds the stored study that `study=` names."""

from __future__ import annotations

import difflib
from pathlib import Path

from bench.records import SAMPLES_FILE
from bench.spec import SpecError

STUDY_FILE = "study.json"


def find_study(name: str | None, results: Path) -> Path:
    """The directory of a study: a folder, a name (or its unique beginning) under `results`, or the newest for None.

    Raises:
        SpecError: there is no such study, or several.
    """
    stored = _stored(results)
    if name is None:
        if not stored:
            raise SpecError(
                f"study: there are none in {results} yet; measure one with python -m bench sweep model=gpt2"
            )
        return max(stored, key=_last_written)
    for folder in (Path(name).expanduser(), results / name):
        if (folder / STUDY_FILE).is_file():
            return folder.resolve()
    matches = [folder for folder in stored if folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(f"study: {name!r} may be {', '.join(folder.name for folder in matches)}; say which")
    close = difflib.get_close_matches(name, [folder.name for folder in stored], n=3)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {len(stored)} in {results}"
    raise SpecError(f"study: no study {name!r}; {hint}")


def _stored(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/{STUDY_FILE}"))


def _last_written(folder: Path) -> float:
    samples = folder / SAMPLES_FILE
    return (samples if samples.exists() else folder / STUDY_FILE).stat().st_mtime
