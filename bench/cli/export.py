"""`export`: figures and tables of stored studies, for papers and reports, or a placement in another tool's settings;
nothing is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.compared import Named, comparison_name
from bench.cli.entry import Options, run_verb
from bench.cli.paths import shown
from bench.cli.request import refuse_unknown
from bench.cli.settings_said import settings_text
from bench.cli.studies import find_study
from bench.compare import Measured, compare
from bench.decide import FORMATS, Settings, Wish, recommend, tool_settings
from bench.frontier import Frontier, load_frontier
from bench.placement import parse_placement
from bench.records import read_records, read_study, replace_text
from bench.report.export import BOTH, write_export, write_studies_export
from bench.report.html_report import write_html_report
from bench.report.quantities import share_text
from bench.spec import SpecError, StudySpec, to_mapping

KNOWN = ("results", "studies", "folder", "columns", "format", "placement")
EXPORT_FOLDER = "export"


def run(overrides: Sequence[str]) -> int:
    return run_verb("export", export_studies, overrides)


def export_studies(options: Options) -> Answer:
    """Every study is found and read before a file is written."""
    refuse_unknown(options, KNOWN)
    formats = _formats(options)
    columns = _columns(options["columns"])
    studies = _found(options["studies"], options["results"])
    folders = _folders(studies, options["folder"])
    read = [(read_study(directory), load_frontier(directory)) for directory in studies]
    if formats:
        return _export_settings(studies, read, folders, formats, options["placement"])
    files: dict[str, list[str]] = {}
    for directory, folder, (study, frontier) in zip(studies, folders, read, strict=True):
        paths = write_export(folder, directory, study, frontier, columns)
        paths.append(write_html_report(folder, directory, study, frontier))
        files[str(directory)] = [str(path) for path in paths]
        print(f"{directory.name}: {len(paths)} files in {shown(folder)}")
    together = _export_together(studies, read, columns, options) if len(studies) > 1 else []
    return Answer(exit_code=COMPLETE, data={"files": files, "together": [str(path) for path in together]})


def _export_together(
    studies: list[Path], read: Sequence[tuple[StudySpec, Frontier]], columns: tuple[int, ...], options: Options
) -> list[Path]:
    """One figure of all studies, in a folder of its own: it belongs to none of them."""
    measured = [
        Measured(frontier=frontier, study=study, records=read_records(directory))
        for directory, (study, frontier) in zip(studies, read, strict=True)
    ]
    name = comparison_name(None, [Named(measured=m, directory=d) for m, d in zip(measured, studies, strict=True)])
    top = options["results"] / EXPORT_FOLDER if options["folder"] is None else _top(options["folder"])
    frontiers = [one.frontier for one in measured]
    paths = write_studies_export(top / name, compare(measured, name), frontiers, columns)
    print(f"together: {len(paths)} files in {shown(top / name)}")
    return paths


def _export_settings(
    studies: list[Path],
    read: Sequence[tuple[StudySpec, Frontier]],
    folders: list[Path],
    formats: Sequence[str],
    placement: Any,
) -> Answer:
    """What another tool is to be told, on screen and in `settings-FORMAT.txt`; exit code 1 where no placement was
    measured that could be said."""
    asked = None if placement is None else parse_placement(str(placement)).text
    found, files, is_complete = [], [], True
    for directory, folder, (study, frontier) in zip(studies, folders, read, strict=True):
        measured = Measured(frontier=frontier, study=study, records=read_records(directory))
        text, why = (asked, _asked_words(study, asked)) if asked is not None else _recommended(measured)
        if text is None:
            print(f"{directory.name}: {why}")
            is_complete = False
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for name in formats:
            settings = tool_settings(text, study.chains, name)
            said = f"{directory.name}: {text} ({why})\n{settings_text(settings)}"
            print(said)
            files.append(folder / f"settings-{name}.txt")
            replace_text(files[-1], f"{said}\n")
            found.append(_settings_data(directory, text, settings))
    data = {"settings": found, "files": [str(path) for path in files]}
    return Answer(exit_code=COMPLETE if is_complete else PARTIAL, data=data)


def _asked_words(study: StudySpec, text: str) -> str:
    return "as asked" if any(entry.text == text for entry in study.placements) else "as asked; not in this study"


def _recommended(measured: Measured) -> tuple[str | None, str]:
    """The knee, and how sure that is; or why there is none."""
    chosen = recommend(measured, Wish()).chosen
    if chosen is None:
        return None, "nothing was measured yet, so there is no placement to say in another tool's settings"
    sure = "" if chosen.share is None else f": the answer in {share_text(chosen.share, 0)} of resamples"
    return chosen.placement, f"recommended{sure}"


def _settings_data(directory: Path, placement: str, settings: Settings) -> dict[str, Any]:
    return {"study": str(directory), "placement": placement, **to_mapping(settings)}


def _formats(options: Options) -> list[str]:
    """
    Raises:
        SpecError: a tool that is not known, or options that do not go together.
    """
    value = options["format"]
    if value is None:
        if options["placement"] is not None:
            raise SpecError(
                f"placement: it is said in a tool's settings; give format= as well, of {', '.join(FORMATS)}"
            )
        return []
    if options["columns"] is not None:
        raise SpecError("columns: format= writes settings and no figures; leave one of the two out")
    formats = [str(name) for name in (value if isinstance(value, list) else [value])]
    unknown = next((name for name in formats if name not in FORMATS), None)
    if unknown is not None or not formats:
        raise SpecError(f"format: {unknown or value!r} is none of {', '.join(FORMATS)}")
    return list(dict.fromkeys(formats))


def _columns(value: Any) -> tuple[int, ...]:
    if value is None:
        return BOTH
    asked = value if isinstance(value, list) else [value]
    wrong = next((one for one in asked if isinstance(one, bool) or one not in BOTH), None)
    if wrong is not None or not asked:
        raise SpecError(f"columns: {value!r} is not 1, 2 or [1,2], the columns of a paper that figures are as wide as")
    return tuple(sorted({int(one) for one in asked}))


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
    top = _top(folder)
    if top.exists() and not top.is_dir():
        raise SpecError(f"folder: {top} is not a folder")
    folders = [top / directory.name for directory in studies]
    if len(set(folders)) < len(folders):
        raise SpecError("folder: two of the studies have the same name; export them one at a time")
    return folders


def _top(folder: Any) -> Path:
    return Path(str(folder)).expanduser().resolve()
