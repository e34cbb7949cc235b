"""The Hydra entry that every verb shares: overrides to config to answer, with exit codes instead of tracebacks."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench.cli.answer import PARTIAL, REQUEST_WRONG, Answer, out_path, write_answers
from bench.cli.mistyped import hint_of
from bench.cli.resolvers import register_resolvers
from bench.folders import root
from bench.records import CannotWriteError, DamagedStudyError
from bench.spec import SpecError
from bench.study import WorkerError

PATH_OPTIONS = ("results", "study", "out", "save", "folder", "tracker.uri")
LIST_OPTION = "studies"
MULTIRUN = ("-m", "--multirun")
RESUMABLE = ("sweep", "capacity")
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_./:%+@-]*")
Options = dict[str, Any]
Verb = Callable[[Options], Answer]


def run_verb(name: str, verb: Verb, overrides: Sequence[str]) -> int:
    """Composes `conf/<name>.yaml` with `overrides` and calls `verb` once, or once a job of a multirun.

    Returns:
        The worst exit code of the jobs; 2 where Hydra does not understand the overrides.
    """
    register_resolvers()
    answers: list[Answer] = []
    by_file: dict[Path, list[Answer]] = defaultdict(list)

    def job(config: DictConfig) -> None:
        answer, path = _answer(verb, config)
        answers.append(answer)
        if path is not None:
            by_file[path].append(answer)
            write_answers(path, by_file[path], multirun=HydraConfig.get().mode == RunMode.MULTIRUN)

    decorate = hydra.main(version_base="1.3", config_path=str(config_folder()), config_name=name)
    try:
        with _hydra_arguments(name, overrides):
            decorate(job)()
    except (HydraException, OmegaConfBaseException) as error:
        _complain(f"{_one_paragraph(error)} (python -m bench {name} --help lists the options)")
        return REQUEST_WRONG
    except KeyboardInterrupt:
        goes_on = ", and the same command goes on from there" if name in RESUMABLE else ""
        _complain(f"interrupted; what has been measured is kept{goes_on}")
        return PARTIAL
    return max((answer.exit_code for answer in answers), default=0)


def config_folder() -> Path:
    """`conf/` of the clone that this code lies in, or the copy inside the installed package."""
    return root() / "conf"


def _answer(verb: Verb, config: DictConfig) -> tuple[Answer, Path | None]:
    path = None
    try:
        options: Options = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
        path = out_path(options.pop("out"))
        options["results"] = _folder("results", options["results"])
        if options.get("study") is not None:
            options["study"] = str(options["study"]) or None
        return verb(options), path
    except (CannotWriteError, WorkerError) as error:
        _complain(str(error))
        return Answer(exit_code=PARTIAL, data={"error": str(error)}), path
    except OSError as error:
        _complain(f"{error.filename or 'file'}: {error.strerror or error}")
        return Answer(exit_code=REQUEST_WRONG, data={"error": str(error)}), path
    except (SpecError, DamagedStudyError, OmegaConfBaseException) as error:
        message = _one_paragraph(error)
        _complain(message)
        return Answer(exit_code=REQUEST_WRONG, data={"error": message}), path


def _folder(option: str, value: Any) -> Path:
    if not isinstance(value, (str, int)) or not str(value).strip():
        raise SpecError(f"{option}: expected a folder, got {value!r}")
    folder = Path(str(value)).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"{option}: {folder} is not a folder")
    return folder


@contextmanager
def _hydra_arguments(name: str, overrides: Sequence[str]) -> Iterator[None]:
    """Hydra reads `sys.argv`, and turns every error into exit code 1 unless HYDRA_FULL_ERROR hands them on."""
    argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    many = any(flag in overrides for flag in MULTIRUN)
    sys.argv = [f"boundary-bench {name}", *(_quoted(_listed(override, many)) for override in overrides)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = argv
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error


def _listed(override: str, many: bool) -> str:
    """Studies with commas between them are one list, which Hydra wants in brackets, but for a multirun."""
    option, _, value = override.partition("=")
    if many or option != LIST_OPTION or "," not in value or value[0] in "[('\"":
        return override
    return f"{option}=[{','.join(map(_in_quotes, value.split(',')))}]"


def _quoted(override: str) -> str:
    """Paths may hold anything, and a shell has taken their quotes off: they are quoted again for Hydra's grammar."""
    option, equals, value = override.partition("=")
    if option not in PATH_OPTIONS or not equals or PLAIN_VALUE.fullmatch(value) or value[:1] in ("'", '"'):
        return override
    return f"{option}={_in_quotes(value)}"


def _in_quotes(text: str) -> str:
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


def _one_paragraph(error: Exception) -> str:
    """The message without Hydra's search path and OmegaConf's type report, on one line."""
    text = str(error)
    if isinstance(error, OverrideParseException):
        if PLAIN_VALUE.fullmatch(error.override or ""):
            return f"{error.override}: an option is written name=value, such as model={error.override}"
        text = f"{error.override}: not an option that Hydra can read: {text.splitlines()[0]}"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        text += f": {cause}"
    hint = hint_of(text)
    if hint is not None:
        return hint
    text = re.split(r"\n\s*(?:Config search path|full_key|object_type)", text)[0]
    return " ".join(text.split())


def _complain(message: str) -> None:
    print(f"boundary-bench: {message}", file=sys.stderr)
