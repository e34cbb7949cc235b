"""`export` writes figures and tables of stored studies, and refuses a wrong request before it writes anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.folders import root
from tests.compare.studies import failed, longer_sequences, measured, write_measured

STORED = root() / "results/reference/cpu"
ONCE = {"evidence.csv", "evidence.md", "captions.txt", "figures.tex"}
ONE = {"table-1col.tex"} | {f"frontier-1col.{suffix}" for suffix in ("png", "svg", "pdf")}
TWO = {"table-2col.tex"} | {
    f"{plot}-2col.{suffix}" for plot in ("frontier", "strip") for suffix in ("png", "svg", "pdf")
}
TOGETHER = {f"frontiers-{n}col.{suffix}" for n in (1, 2) for suffix in ("png", "svg", "pdf")}
SETTINGS = {"transformers": "every_n_layers", "torchtitan": "cannot be said", "megatron": "--recompute-num-layers 1"}


def stored(pattern: str) -> str:
    return next(STORED.glob(pattern)).name


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".html"}


def test_every_study_gets_a_folder_with_all_files_and_together_they_get_one_figure(tmp_path: Path) -> None:
    names = [stored("gpt2-*"), stored("unet-*")]
    assert main(["export", f"studies=[{','.join(names)}]", f"results={STORED}", f"folder={tmp_path / 'a b'}"]) == 0
    together = "-vs-".join(names)
    assert names_in(tmp_path / "a b") == {*names, together}
    assert all(names_in(tmp_path / "a b" / name) == ONCE | ONE | TWO for name in names)
    assert names_in(tmp_path / "a b" / together) == TOGETHER | {"captions.txt", "figures.tex"}
    said = (tmp_path / "a b" / together / "captions.txt").read_text(encoding="utf-8")
    assert "unet differs from gpt2: model gpt2 → unet" in said


def test_without_a_folder_files_lie_with_the_study_and_those_of_several_beside_the_studies(folder: Path) -> None:
    results = folder / "results"
    studies = [
        write_measured(results, measured(seed=1)),
        write_measured(results, measured(seed=2, controls=longer_sequences(512))),
    ]
    assert main(["export", f"studies=[{studies[0].name},{studies[1].name}]", "out=answer.json"]) == 0
    assert all(names_in(study / "export") == ONCE | ONE | TWO for study in studies)
    [together] = (results / "export").iterdir()
    assert names_in(together) == TOGETHER | {"captions.txt", "figures.tex"}
    answer = json.loads((folder / "answer.json").read_text())
    assert {Path(path).name for path in answer["together"]} == names_in(together)
    assert main(["export", f"studies=[{studies[0].name}]"]) == 0  # the folder of exports is no study


@pytest.mark.parametrize(("columns", "expected"), [("1", ONCE | ONE), ("2", ONCE | TWO), ("[2,1]", ONCE | ONE | TWO)])
def test_columns_choose_the_widths(columns: str, expected: set[str], folder: Path) -> None:
    study = write_measured(folder / "results", measured(seed=1))
    assert main(["export", f"columns={columns}", f"folder={folder / 'paper'}"]) == 0
    assert names_in(folder / "paper" / study.name) == expected


def test_pdf_text_is_truetype_and_the_same_every_time(tmp_path: Path) -> None:
    name = stored("gpt2-*")
    for folder in ("one", "two"):
        assert (
            main(["export", f"studies=[{name}]", f"results={STORED}", f"folder={tmp_path / folder}", "columns=1"]) == 0
        )
    one, two = ((tmp_path / folder / name / "frontier-1col.pdf").read_bytes() for folder in ("one", "two"))
    assert one == two
    assert b"/CIDFontType2" in one
    assert b"/Type3" not in one


@pytest.mark.parametrize("format", SETTINGS)
def test_a_named_placement_is_said_in_another_tools_settings_or_why_not(
    format: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_measured(folder / "results", measured(seed=1))
    assert main(["export", f"format={format}", "placement=blocks.0..1:each"]) == 0
    said = capsys.readouterr().out
    assert f"{study.name}: blocks.0..1:each (as asked)" in said
    assert SETTINGS[format] in said
    assert names_in(study / "export") == {f"settings-{format}.txt"}
    assert (study / "export" / f"settings-{format}.txt").read_text(encoding="utf-8") == said


def test_without_a_name_the_recommended_placement_is_said_and_how_sure_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_measured(folder / "results", measured(seed=1))
    assert main(["export", "format=[megatron,transformers]", "out=answer.json"]) == 0
    assert f"{study.name}: blocks.0 (recommended: the answer in 100 % of resamples)" in capsys.readouterr().out
    settings = json.loads((folder / "answer.json").read_text())["settings"]
    assert [(one["format"], one["placement"]) for one in settings] == [
        ("megatron", "blocks.0"),
        ("transformers", "blocks.0"),
    ]
    assert settings[0]["lines"] == ["--recompute-granularity full --recompute-method block --recompute-num-layers 1"]


def test_a_placement_that_the_study_lacks_is_said_to_be_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_measured(folder / "results", measured(seed=1))
    assert main(["export", "format=megatron", "placement=blocks.1"]) == 0
    assert "(as asked; not in this study)" in capsys.readouterr().out


def test_where_nothing_was_measured_there_is_nothing_to_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = write_measured(folder / "results", failed())
    assert main(["export", "format=megatron"]) == 1
    assert "nothing was measured yet" in capsys.readouterr().out
    assert not (study / "export").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["studies=gpt2"], "studies: expected a list"),
        (["studies=[gtp2-nowhere]"], "no study 'gtp2-nowhere'"),
        (["studies=[vit,vit]"], "named twice"),
        (["studies=[vit]", "columns=3"], "columns: 3 is not 1, 2 or [1,2]"),
        (["studies=[vit]", "columns=[]"], "columns: [] is not 1, 2 or [1,2]"),
        (["studies=[vit]", "columns=true"], "columns: True is not 1, 2 or [1,2]"),
        (["studies=[vit]", "format=word"], "format: 'word' is none of transformers, torchtitan, megatron"),
        (["studies=[vit]", "placement=none"], "give format= as well"),
        (["studies=[vit]", "format=megatron", "columns=1"], "leave one of the two out"),
        (["studies=[vit]", "format=megatron", "placement=h..0"], "h..0"),
    ],
)
def test_a_wrong_request_exits_2_and_writes_nothing(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "exported"
    assert main(["export", *options, f"results={STORED}", f"folder={folder}"]) == 2
    assert said in capsys.readouterr().err
    assert not folder.exists()


def test_a_damaged_study_leaves_no_settings_of_the_others(folder: Path) -> None:
    sound = write_measured(folder / "results", measured(seed=1))
    damaged = folder / "results" / "damaged-00000000"
    damaged.mkdir()
    (damaged / "study.json").write_text("{")
    assert main(["export", f"studies=[{sound.name},{damaged.name}]", "format=megatron"]) == 2
    assert not list((folder / "results").rglob("settings-*.txt"))
