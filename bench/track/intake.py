"""Whether a study or capacity directory is fit to be taken in: it may come from anywhere, be damaged, or do harm.

What stands here is refused before anything of it is followed, drawn or uploaded: links and special files, files that
no study needs, numbers that are none, names with characters that a terminal obeys. HTML and Markdown in names are not
refused but escaped where they are shown.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.capacity.store import ANSWER_FILE, PROBES_FILE, SPEC_FILE
from bench.records import (
    ENVIRONMENT_FILE,
    FORECAST_FILE,
    PLAN_FILE,
    SAMPLES_FILE,
    STUDY_FILE,
    TELEMETRY_SUMMARY_FILE,
    TRACE_FOLDER,
)
from bench.records.compiled import COMPILED_FILE
from bench.records.timeline import TIMELINE_FILE
from bench.track.content import UNSTORABLE
from bench.track.errors import UnfitStudyError

JSON_FILES = (
    *(STUDY_FILE, ENVIRONMENT_FILE, TELEMETRY_SUMMARY_FILE, FORECAST_FILE, PLAN_FILE, COMPILED_FILE, TIMELINE_FILE),
    *("frontier.json", SPEC_FILE, ANSWER_FILE),
)
PLANS_AT_SIZES = "plan-*.json"
NAMING_FILES = (STUDY_FILE, SPEC_FILE)
"""Of them, those whose names are shown."""
RECORD_FILES = (SAMPLES_FILE, PROBES_FILE)
MIB = 2**20
MAX_JSON_BYTES = 64 * MIB
MAX_RECORDS_BYTES = 1024 * MIB
"""A round of 200 placements is about 0.1 MiB of records."""
MAX_FILE_BYTES = 256 * MIB
"""Of a picture, page or recording. The largest that `explain` writes are some ten MiB."""
MAX_ENTRIES = 5000
MAX_DEPTH = 6
MAX_DIGITS = 20
"""Of a whole number: 64 bits have no more, and a seed may take them all."""
MAX_RANGE = 100_000
"""Units that one range of a placement may name; `a.0..999999999` would fill the memory of whoever reads it."""
RANGE = re.compile(r"([0-9]+)\.\.([0-9]+)")
ODD_IN_FILE_NAME = re.compile(r'[\\<>"|?*%#]')
"""Besides controls: not allowed on every system that artifacts are downloaded to, or with a meaning in addresses."""


class _NoNumberError(ValueError):
    """A number in JSON that is none, or beyond what can be stored."""


def check_directory(directory: Path) -> None:
    """Reads every file that publishing would, and changes nothing.

    Raises:
        UnfitStudyError: for the first thing that is wrong; an honest study needs none of it.
    """
    if not directory.is_dir():
        raise UnfitStudyError(f"{directory}: there is no such study directory")
    for path in _files(directory):
        _check_size(directory, path)
    for name in (*JSON_FILES, *sorted(path.name for path in directory.glob(PLANS_AT_SIZES))):
        data = _read_json(directory / name)
        if name in NAMING_FILES and isinstance(data, dict):
            _check_names(directory / name, data)
    for name in RECORD_FILES:
        _check_records(directory / name)


def _files(directory: Path) -> Iterator[Path]:
    """Regular files at any depth, after everything else was refused."""
    num_entries = 0
    folders = [(directory, 0)]
    while folders:
        folder, depth = folders.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            num_entries += 1
            path = Path(entry.path)
            if num_entries > MAX_ENTRIES or depth > MAX_DEPTH:
                raise UnfitStudyError(
                    f"{directory}: more than {MAX_ENTRIES} files, or folders more than {MAX_DEPTH} deep; "
                    "move out what is not the study's"
                )
            _check_file_name(directory, entry.name)
            kind = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                folders.append((path, depth + 1))
            elif stat.S_ISREG(kind):
                yield path
            else:
                what = "a link" if stat.S_ISLNK(kind) else "no regular file"
                raise UnfitStudyError(
                    f"{path}: is {what}; a study directory holds plain files alone, so remove it or copy what it names"
                )


def _check_file_name(directory: Path, name: str) -> None:
    if UNSTORABLE.search(name) or ODD_IN_FILE_NAME.search(name) or "\n" in name or "\t" in name:
        raise UnfitStudyError(
            f"{directory}: a file is called {name!r}, with characters that "
            "MLflow or a shell may read otherwise; rename it"
        )


def _check_size(directory: Path, path: Path) -> None:
    inside = path.relative_to(directory)
    if str(inside) in RECORD_FILES:
        limit = MAX_RECORDS_BYTES
    elif str(inside) in JSON_FILES or (len(inside.parts) == 1 and inside.match(PLANS_AT_SIZES)):
        limit = MAX_JSON_BYTES
    elif inside.parts[0] in ("plots", TRACE_FOLDER) or inside.suffix == ".csv":
        limit = MAX_FILE_BYTES
    else:
        return  # never read
    size = path.stat().st_size
    if size > limit:
        raise UnfitStudyError(f"{path}: {size / MIB:.0f} MiB, and at most {limit // MIB} are taken in; move it away")


def _read_json(path: Path) -> Any:
    """Its value; None where it is absent or no JSON, which the reader of each file tells in its own words."""
    try:
        return _parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnfitStudyError(f"{path}: cannot be read ({error.strerror}); make it a readable file") from None
    except _NoNumberError as error:
        raise UnfitStudyError(f"{path}: {error}; measure the study again, or restore the file from a copy") from None
    except (ValueError, RecursionError):
        return None


def _check_records(path: Path) -> None:
    """Lines that are no JSON, such as one torn by a kill, are skipped here as they are everywhere."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    _parse(line)
                except _NoNumberError as error:
                    raise UnfitStudyError(
                        f"{path}, line {number}: {error}; take the line out, or restore the file from a copy"
                    ) from None
                except (ValueError, RecursionError):
                    continue
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnfitStudyError(f"{path}: cannot be read ({error.strerror}); make it a readable file") from None


def _parse(data: bytes) -> Any:
    return json.loads(data, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)


def _refuse(text: str) -> float:
    raise _NoNumberError(f"{text} is no number that was measured")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _NoNumberError(f"{text[:40]} is beyond any number that was measured")
    return value


def _bounded(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise _NoNumberError(f"a whole number of {len(text)} digits is beyond any that was measured")
    return int(text)


def _check_names(path: Path, study: dict[str, Any]) -> None:
    for text in _texts(study):
        if UNSTORABLE.search(text):
            raise UnfitStudyError(f"{path}: control characters in {text[:80]!r}; no name of a study has any")
    entries = study.get("placements")
    placements = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    for field in ("text", "id"):
        counts = Counter(str(entry.get(field)) for entry in placements)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise UnfitStudyError(f"{path}: two placements have the {field} {twice[0][:80]!r}; restore the file")
    for entry in placements:
        for first, last in RANGE.findall(str(entry.get("text"))):
            if len(first + last) > MAX_DIGITS or int(last) - int(first) > MAX_RANGE:
                raise UnfitStudyError(
                    f"{path}: a placement names the units {first[:20]}..{last[:20]}, more than any model has"
                )


def _texts(value: Any) -> Iterator[str]:
    """Every text in JSON data, keys included. A stack and no recursion: what was parsed may be nested deeply."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack += [*item, *item.values()]
        elif isinstance(item, list):
            stack += item
