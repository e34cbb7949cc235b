"""Study directories from elsewhere: brought back from a compute node, damaged, or made to do harm."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import publish as publish_verb
from bench.records import read_study
from bench.track import UnfitStudyError, check_directory, default_tracking_uri, is_run_id, publish_study
from bench.track.intake import MAX_ENTRIES, MAX_FILE_BYTES, MAX_JSON_BYTES
from tests.track.stores import children_of, client_of, parent_of, rows
from tests.track.synthetic import failed_trial, make_all, ok_trials

REFERENCE = Path(__file__).parents[2] / "results/reference/cpu"


def edit_study(directory: Path, change: Callable[[dict], None]) -> None:
    data = json.loads((directory / "study.json").read_text())
    change(data)
    (directory / "study.json").write_text(json.dumps(data))


def append(directory: Path, line: str) -> None:
    with (directory / "samples.jsonl").open("a") as samples:
        samples.write(line + "\n")


def link_out(directory: Path, name: str) -> None:
    secret = directory.parent / "secret"
    secret.write_text("secret")
    (directory / name).parent.mkdir(exist_ok=True)
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(secret)


def make_sparse(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def link_folder(directory: Path) -> None:
    shutil.rmtree(directory / "plots")
    (directory / "plots").symlink_to(directory.parent)


def many_files(directory: Path) -> None:
    for index in range(MAX_ENTRIES + 1):
        (directory / "plots" / f"{index}.png").touch()


def nested(directory: Path) -> None:
    (directory / "plots" / "/".join("abcdefghi")).mkdir(parents=True)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link in place of a record": (lambda d: link_out(d, "samples.jsonl"), r"samples\.jsonl: is a link"),
    "a link among the plots": (lambda d: link_out(d, "plots/frontier.png"), r"frontier\.png: is a link"),
    "a link that draws over a file outside": (lambda d: link_out(d, "frontier.csv"), r"frontier\.csv: is a link"),
    "a link to a folder": (link_folder, r"plots: is a link"),
    "a pipe, which would be read for ever": (lambda d: os.mkfifo(d / "environment2.json"), "is no regular file"),
    "a huge picture": (
        lambda d: make_sparse(d / "plots" / "x.png", MAX_FILE_BYTES + 1),
        r"x\.png: 256 MiB, and at most",
    ),
    "a huge study": (lambda d: make_sparse(d / "study.json", MAX_JSON_BYTES + 1), r"study\.json: 64 MiB, and at most"),
    "too many files": (many_files, "more than 5000 files"),
    "folders in folders": (nested, "deep"),
    "a file name that a terminal obeys": (
        lambda d: (d / "plots" / "a\x1b[2J.png").touch(),
        r"called 'a\\x1b\[2J\.png'",
    ),
    "a file name with a path of Windows": (lambda d: (d / "plots" / "..\\..\\x.png").touch(), "may read otherwise"),
    "a file name of HTML": (lambda d: (d / "plots" / "<img src=x>.png").touch(), "may read otherwise"),
    "NaN in a record": (lambda d: append(d, '{"kind": "time", "wall_ms": NaN}'), r"line \d+: NaN is no number"),
    "Infinity in a record": (lambda d: append(d, '{"kind": "time", "wall_ms": -Infinity}'), "Infinity is no number"),
    "a number beyond all": (lambda d: append(d, '{"wall_ms": 1e999}'), "1e999 is beyond any number"),
    "a whole number beyond all": (lambda d: append(d, '{"round": ' + "9" * 400 + "}"), "of 400 digits is beyond"),
    "NaN in a forecast": (lambda d: (d / "forecast.json").write_text('{"rows": [NaN]}'), r"forecast\.json: NaN"),
    "a name that a terminal obeys": (lambda d: edit_study(d, lambda s: s.update(name="\x1b[31m")), r"'\\x1b\[31m'"),
    "a name that no database stores": (
        lambda d: edit_study(d, lambda s: s.update(name="a\x00b")),
        "control characters",
    ),
    "half a character": (lambda d: edit_study(d, lambda s: s.update(name="\ud800")), r"'\\ud800'"),
    "a name that reads backwards": (lambda d: edit_study(d, lambda s: s.update(name="\u202egpj")), r"'\\u202egpj'"),
    "two placements with one id": (
        lambda d: edit_study(d, lambda s: s["placements"].append(s["placements"][0] | {"text": "transformer.h.9"})),
        "two placements have the id",
    ),
    "a placement of a billion units": (
        lambda d: edit_study(d, lambda s: s["placements"][1].update(text="h.0..999999999:each")),
        r"names the units 0\.\.999999999",
    ),
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_a_directory_that_may_do_harm_is_refused_and_nothing_of_it_is_taken_in(results: Path, harm: str) -> None:
    directory, study, frontier = make_all(results, ok_trials(2))
    do, message = HOSTILE[harm]
    do(directory)
    before = rows(results / "mlflow.db")
    with pytest.raises(UnfitStudyError, match=message) as error:
        publish_study(directory, study, frontier, default_tracking_uri(results))
    assert str(error.value).startswith(str(directory))
    assert str(error.value).isprintable()
    assert rows(results / "mlflow.db") == before


def test_a_socket_is_no_file_of_a_study(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, *_ = make_all(results, ok_trials(1))
    monkeypatch.chdir(directory)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(UnfitStudyError, match="is no regular file"):
            check_directory(directory)


def test_a_torn_line_and_deep_or_bad_json_are_left_to_those_who_read_them(results: Path) -> None:
    """`read_study` and `read_records` tell them, with what to do; nothing here breaks on them."""
    directory, *_ = make_all(results, ok_trials(1))
    append(directory, '{"kind": "time", "wal')
    append(directory, "[" * 100_000)
    (directory / "forecast.json").write_text("[" * 100_000)
    (directory / "plan.json").write_bytes(b"\xff\xfe")
    check_directory(directory)


def test_a_directory_reached_over_a_link_is_as_fit_as_it_is(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(1))
    (results / "latest").symlink_to(directory)
    check_directory(results / "latest")
    published = publish_study(results / "latest", study, frontier, default_tracking_uri(results))
    assert set(children_of(published)) == {"id000000"}


def test_controls_in_a_reason_are_shown_and_not_obeyed(results: Path) -> None:
    """An honest error may be coloured; a database may not be given a NUL."""
    trials = (*ok_trials(1), failed_trial("transformer.h.7", 7, "error", "\x1b[31mRed\x1b[0m\x00\ud800\nnext"))
    directory, study, frontier = make_all(results, trials[:1])
    import dataclasses

    frontier = dataclasses.replace(frontier, trials=trials)
    published = publish_study(directory, study, frontier, default_tracking_uri(results))
    assert children_of(published)["id000007"].data.tags["reason"] == "�[31mRed�[0m��\nnext"
    assert parent_of(published).data.tags["mlflow.note.content"].isascii() is False


@pytest.mark.parametrize("study", sorted(path.name for path in REFERENCE.iterdir() if path.is_dir()))
def test_every_committed_study_is_fit(study: str) -> None:
    check_directory(REFERENCE / study)


def test_a_study_brought_back_from_a_compute_node_is_published_from_what_its_worker_wrote(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker there writes these files alone; the frontier and the plots are made here."""
    brought = results / "gpt2-19a93c5f"
    brought.mkdir()
    for name in ("study.json", "environment.json", "samples.jsonl"):
        shutil.copy(REFERENCE / "gpt2-19a93c5f" / name, brought)
    assert publish_verb.run([f"study={brought}", f"results={results}"]) == 0, capsys.readouterr().err
    client = client_of(default_tracking_uri(results))
    study = read_study(brought)
    [parent] = [
        run
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id], "tags.`boundary_bench.kind` = 'study'")
    ]
    assert is_run_id(parent.info.run_id)
    assert (parent.info.status, parent.data.tags["control_key"]) == ("FINISHED", study.key)
    assert parent.data.metrics["placements/measured"] == len(study.placements)
    assert "plots" in {file.path for file in client.list_artifacts(parent.info.run_id)}
