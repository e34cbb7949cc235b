"""`export`: the plots and the evidence tables of stored studies, for papers and reports; nothing is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.project import shown
from bench.cli.request import refuse_unknown
from bench.cli.studies import find_study
from bench.frontier import load_frontier
from bench.records import read_study
from bench.report.export import write_export
from bench.spec import SpecError

EXPORT_FOLDER = "export"


def run(overrides: Sequence[str]) -> int:
    return run_verb("export", export_studies, overrides)


def export_studies(options: Options) -> Answer:
    """Every study is found and read before a file is written."""
    refuse_unknown(options, ("results", "studies", "folder"))
    studies = _found(options["studies"], options["results"])
    folders = _folders(studies, options["folder"])
    read = [(read_study(directory), load_frontier(directory)) for directory in studies]
    files: dict[str, list[str]] = {}
    for directory, folder, (study, frontier) in zip(studies, folders, read, strict=True):
        paths = write_export(folder, directory, study, frontier)
        files[str(directory)] = [str(path) for path in paths]
        print(f"{directory.name}: {len(paths)} files in {shown(folder)}")
    return Answer(exit_code=COMPLETE, data={"files": files})


def _found(names: Any, results: Path) -> list[Path]:
    if not isinstance(names, list):
        raise SpecError(f"studies: expected a list such as [gpt2-1a2b3c4d], got {names!r}")
    studies = [find_study(str(name), results) for name in names] or [find_study(None, results)]
    twice = next((directory for directory in studies if studies.count(directory) > 1), None)
    if twice is not None:
        raise SpecError(f"studies: {twice.name} is named twice")
    return studies


def _folders(studies: list[Path], folder: Any) -> list[Path]:
    if folder is None:
        return [directory / EXPORT_FOLDER for directory in studies]
    top = Path(str(folder)).expanduser().resolve()
    if top.exists() and not top.is_dir():
        raise SpecError(f"folder: {top} is not a folder")
    folders = [top / directory.name for directory in studies]
    if len(set(folders)) < len(folders):
        raise SpecError("folder: two of the studies have the same name; export them one at a time")
    return folders
