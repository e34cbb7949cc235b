"""`compare`: from names of studies to files, exit codes and one line where a rule fires."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.frontier import build_frontier, write_frontier
from bench.records import read_records, read_study
from bench.track import default_tracking_uri, publish_study
from tests.compare.studies import longer_sequences, measured, with_torch, write_measured

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 700), "blocks.0..1:each": (1.45, 500)}


@pytest.fixture
def studies(folder: Path) -> list[str]:
    """Names of three studies under `results`: the baseline, one with another torch that is 10 % slower, and one of
    longer sequences."""
    results = folder / "results"
    written = [
        write_measured(results, measured(seed=1)),
        write_measured(results, measured(seed=2, step_ms=110.0, controls=with_torch("2.14.0"))),
        write_measured(results, measured(COSTLY, seed=3, controls=longer_sequences(512))),
    ]
    return [path.name for path in written]


def compared(studies: list[str], *more: str) -> int:
    return main(["compare", f"studies=[{','.join(studies)}]", "tracker=none", *more])


def test_it_prints_the_comparison_and_leaves_its_files(
    studies: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(studies, "out=answer.json") == 0
    said = capsys.readouterr().out
    assert "B differs from A: torch 2.13.0 → 2.14.0" in said
    assert "C differs from A: sequence_length 16 → 512" in said
    (made,) = (folder / "results" / "comparisons").iterdir()
    assert made.name == "-vs-".join(studies)
    assert {path.name for path in made.iterdir()} == {"comparison.json", "comparison.csv", "plots"}
    assert {path.name for path in (made / "plots").iterdir()} == {
        f"{name}.{kind}" for name in ("frontiers", "ratios") for kind in ("png", "svg")
    }
    answer = json.loads((folder / "answer.json").read_text())
    assert (answer["exit_code"], answer["directory"]) == (0, str(made))
    assert [entrant["study"] for entrant in answer["comparison"]["studies"]] == studies


def test_nothing_of_the_studies_is_written_to(studies: list[str], folder: Path) -> None:
    def state() -> dict[str, bytes]:
        return {
            path.as_posix(): path.read_bytes()
            for name in studies
            for path in sorted((folder / "results" / name).rglob("*"))
            if path.is_file()
        }

    before = state()
    assert compared(studies) == 0
    assert state() == before


def test_a_rule_that_fires_exits_1_with_one_line(studies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(studies[:2], "fail_if=slower:2%", "budgets=[60%]", "out=answer.json") == 1
    fired = [line for line in capsys.readouterr().err.splitlines() if "fires" in line]
    assert fired[0].startswith("boundary-bench: fail_if=slower:2% fires: B within 60 % of none: step time ×1.")
    answer = json.loads(Path("answer.json").read_text())
    assert answer["exit_code"] == 1
    assert answer["fail_if"][0]["fires"] is True


def test_a_rule_that_does_not_fire_exits_0(studies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(studies[:2], "fail_if=[costlier:3%,larger:1%]") == 0
    assert "fires" not in capsys.readouterr().err


def test_milliseconds_of_another_job_exit_2(studies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compared([studies[0], studies[2]], "fail_if=slower:2%") == 2
    assert "not like for like (sequence_length 16 → 512)" in capsys.readouterr().err


def test_a_folder_and_the_beginning_of_a_key_name_a_study_too(studies: list[str], folder: Path) -> None:
    key = studies[1].rpartition("-")[2]
    shutil.copytree(folder / "results" / studies[0], folder / "elsewhere" / studies[0])
    assert compared([f"elsewhere/{studies[0]}", key[:6] if not key[:6].isdigit() else studies[1]], "name=mine") == 0
    assert (folder / "results" / "comparisons" / "mine" / "comparison.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["studies=[]"], "name two or more"),
        (["studies=[toy-nowhere,toy-nowhere-else]"], "no study"),
        (["budgets=[0%]"], "budgets: '0%' is no share"),
        (["budgets=[8GiB]"], "budgets: '8GiB' is no share"),
        (["fail_if=faster:2%"], "fail_if: 'faster:2%' is no rule"),
        (["name=../out"], "name: '../out' is to name a folder"),
        (["tracker=mlflow", "tracker.uri=./mlruns"], "tracker.uri"),
    ],
)
def test_a_wrong_request_exits_2_and_leaves_no_folder(
    studies: list[str], folder: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"studies": f"studies=[{','.join(studies)}]", "tracker": "tracker=none"}
    given |= {argument.partition("=")[0]: argument for argument in arguments}
    assert main(["compare", *given.values()]) == 2
    assert told in capsys.readouterr().err
    assert not (folder / "results" / "comparisons").exists()


def test_a_study_named_twice_exits_2(studies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compared([studies[0], studies[0]]) == 2
    assert "named before" in capsys.readouterr().err


def test_studies_of_one_name_in_two_folders_have_a_folder_of_their_own(studies: list[str], folder: Path) -> None:
    shutil.copytree(folder / "results" / studies[0], folder / "elsewhere" / studies[0])
    assert compared([studies[0], f"elsewhere/{studies[0]}"]) == 0
    (made,) = (folder / "results" / "comparisons").iterdir()
    assert made.name.startswith(f"{studies[0]}-vs-{studies[0]}-")


def test_an_mlflow_run_names_a_study_with_its_rounds_or_without(
    studies: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = folder / "results"
    uri = default_tracking_uri(results)
    runs = []
    for name in studies[:2]:
        directory = results / name
        frontier = build_frontier(read_study(directory), read_records(directory))
        write_frontier(directory, frontier)
        runs.append(publish_study(directory, read_study(directory), frontier, uri).parent_run_id)
    assert compared(runs) == 0
    assert "only the published frontier" not in capsys.readouterr().out
    shutil.rmtree(results / studies[1])
    assert compared([studies[0], runs[1]]) == 0
    assert "only the published frontier is here" in capsys.readouterr().out
    assert compared([studies[0], "f" * 32]) == 2
    assert "studies:" in capsys.readouterr().err


def test_it_is_published_as_a_run_and_again_as_the_same(
    studies: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", f"studies=[{','.join(studies)}]"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    assert "MLflow:     comparisons, run " in first
    assert first == capsys.readouterr().out


def test_a_store_that_is_down_exits_1_and_keeps_the_comparison(
    studies: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "results" / "mlflow.db").write_text("no database")
    assert main(["compare", f"studies=[{','.join(studies)}]"]) == 1
    assert "The comparison is safe in" in capsys.readouterr().err
    assert len(list((folder / "results" / "comparisons").iterdir())) == 1
