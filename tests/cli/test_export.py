"""`export` writes plots and tables of stored studies, and refuses a wrong request before it writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.main import main
from bench.folders import root

STORED = root() / "results/reference/cpu"
FILES = {f"evidence.{suffix}" for suffix in ("csv", "md", "tex")} | {
    f"{plot}.{suffix}" for plot in ("frontier", "strip") for suffix in ("png", "svg", "pdf")
}


def test_every_study_gets_a_folder_with_all_files(tmp_path: Path) -> None:
    names = [path.name for path in sorted(STORED.glob("gpt2-*")) + sorted(STORED.glob("unet-*"))]
    assert main(["export", f"studies=[{','.join(names)}]", f"results={STORED}", f"folder={tmp_path / 'a b'}"]) == 0
    assert len(names) == 2
    assert {path.name for path in (tmp_path / "a b").iterdir()} == set(names)
    assert all({path.name for path in (tmp_path / "a b" / name).iterdir()} == FILES for name in names)


def test_pdf_text_is_truetype_and_the_same_every_time(tmp_path: Path) -> None:
    name = next(STORED.glob("gpt2-*")).name
    for folder in ("one", "two"):
        assert main(["export", f"studies=[{name}]", f"results={STORED}", f"folder={tmp_path / folder}"]) == 0
    one, two = ((tmp_path / folder / name / "frontier.pdf").read_bytes() for folder in ("one", "two"))
    assert one == two
    assert b"/CIDFontType2" in one
    assert b"/Type3" not in one


@pytest.mark.parametrize(
    ("studies", "said"),
    [
        ("gpt2", "studies: expected a list"),
        ("[gtp2-nowhere]", "no study 'gtp2-nowhere'"),
        ("[gpt2,gpt2]", "named twice"),
    ],
)
def test_a_wrong_request_exits_2_and_writes_nothing(
    studies: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "exported"
    assert main(["export", f"studies={studies}", f"results={STORED}", f"folder={folder}"]) == 2
    assert said in capsys.readouterr().err
    assert not folder.exists()
