"""The studies that a comparison names, read whole where their rounds are here, else as they were published."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.studies import find_study
from bench.cli.tracking import store_uri
from bench.compare import Measured
from bench.frontier import load_frontier
from bench.records import read_records, read_study, slug
from bench.spec import SpecError
from bench.track import TrackError, is_run_id, published_frontier

MAX_NAME = 100
"""Characters of a folder's name that is put together."""
SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


@dataclass(frozen=True, kw_only=True)
class Named:
    measured: Measured
    directory: Path | None
    """None for one that is there as a published frontier alone."""


def read_named(option: Any, results: Path, tracker: Mapping[str, Any]) -> list[Named]:
    """
    Raises:
        SpecError: fewer than two studies, one that is not there, or one named twice.
    """
    names = [str(name) for name in option] if isinstance(option, (list, tuple)) else [str(option)] if option else []
    if len(names) < 2:
        raise SpecError(
            f"studies: name two or more, the baseline first, as in studies=[gpt2-1a2b3c4d,gpt2-5e6f7a8b]; got "
            f"{', '.join(names) or 'none'}"
        )
    found = [_read(name, results, tracker) for name in names]
    for index, named in enumerate(found):
        if named.directory is not None and named.directory in [other.directory for other in found[:index]]:
            raise SpecError(
                f"studies: {names[index]} is {named.directory}, which is named before; a study shares its "
                "rounds with itself, so there is nothing to compare"
            )
    return found


def shares_of(option: Any) -> list[float]:
    """`[40%, 0.6]` as shares.

    Raises:
        SpecError: something else, or no share above 0.
    """
    given = option if isinstance(option, (list, tuple)) else [option]
    return [_share(value) for value in given]


def comparison_name(option: Any, named: Sequence[Named]) -> str:
    """The name asked for, else `BASELINE-vs-OTHERS`.

    Raises:
        SpecError: a name with nothing in it that a folder may be called.
    """
    if option is not None:
        name = str(option)
        if slug(name) != name:
            raise SpecError(f"name: {name!r} is to name a folder: letters, digits, _ . - alone, as {slug(name)!r}")
        return name
    studies = [one.measured.frontier.study for one in named]
    name = slug("-vs-".join(studies))
    if len(name) <= MAX_NAME and len(set(studies)) == len(studies):
        return name
    # Studies of equal names in different folders, and long lists, are told apart by where they lie.
    where = "\n".join(f"{one.measured.frontier.key} {one.directory}" for one in named)
    digest = hashlib.sha256(where.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}-{digest}"


def _read(name: str, results: Path, tracker: Mapping[str, Any]) -> Named:
    if not is_run_id(name) or (results / name).exists() or Path(name).exists():
        return _of_directory(find_study(name, results))
    try:
        frontier = published_frontier(name, store_uri(results, tracker))
    except TrackError as error:
        raise SpecError(f"studies: {error}") from None
    directory = results / frontier.study
    if (directory / "study.json").is_file() and read_study(directory).key == frontier.key:
        return _of_directory(directory.resolve())
    return Named(measured=Measured(frontier=frontier), directory=None)


def _of_directory(directory: Path) -> Named:
    measured = Measured(frontier=load_frontier(directory), study=read_study(directory), records=read_records(directory))
    return Named(measured=measured, directory=directory)


def _share(value: Any) -> float:
    match = SHARE.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    share = float(match[1]) / (100 if match[2] else 1) if match is not None else 0.0
    if not 0 < share <= 2:
        raise SpecError(f"budgets: {value!r} is no share of the peak of none; write 60%, or 0.6")
    return share
