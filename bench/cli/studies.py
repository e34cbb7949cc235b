"""Finds the stored study that `study=` names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from bench.records import SAMPLES_FILE
from bench.spec import SpecError

STUDY_FILE = "study.json"
NUM_NAMED = 8
"""Candidates that a message names."""


def find_study(name: str | None, results: Path) -> Path:
    """The directory of a study: a folder, a name under `results`, its unique beginning, or that of its key; the newest
    for None.

    Raises:
        SpecError: there is no such study, or several.
    """
    if name is None:
        stored = _studies(results)
        if not stored:
            raise SpecError(
                f"study: there are none in {results} yet; measure one with python -m bench sweep model=gpt2"
            )
        return max(stored, key=_last_written)
    for folder in (Path(name).expanduser(), results / name):
        if _is_study(folder):
            return folder.resolve()
    matches = [results / stored for stored in _names(results) if _may_be_meant(name, stored)]
    matches = [folder for folder in matches if _is_study(folder)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(f"study: {name!r} may be {_list(matches)}; say which")
    stored = _studies(results)
    close = difflib.get_close_matches(name, [folder.name for folder in stored], n=3)
    there = f"the newest of {len(stored)} in {results}: {_newest(stored)}"
    hint = f"did you mean {', '.join(close)}?" if close else there
    raise SpecError(f"study: no study {name!r}; {hint}")


def _newest(stored: Sequence[Path], count: int = 5) -> str:
    return ", ".join(folder.name for folder in sorted(stored, key=_last_written, reverse=True)[:count]) or "none"


def _may_be_meant(name: str, stored: str) -> bool:
    """`gpt2-0136` and `0136b48f` both mean `gpt2-0136b48f`."""
    key = stored.rpartition("-")[2]
    return bool(name) and (stored.startswith(name) or key.startswith(name))


def _names(results: Path) -> list[str]:
    """Names alone, since looking into each of thousands of folders takes far longer than listing them."""
    try:
        return sorted(path.name for path in results.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _studies(results: Path) -> list[Path]:
    return [results / name for name in _names(results) if _is_study(results / name)]


def _is_study(folder: Path) -> bool:
    return (folder / STUDY_FILE).is_file()


def _list(folders: list[Path]) -> str:
    named = ", ".join(folder.name for folder in folders[:NUM_NAMED])
    more = len(folders) - NUM_NAMED
    return named + (f" and {more} more" if more > 0 else "")


def _last_written(folder: Path) -> float:
    samples = folder / SAMPLES_FILE
    return (samples if samples.exists() else folder / STUDY_FILE).stat().st_mtime
