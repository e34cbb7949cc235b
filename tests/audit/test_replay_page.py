"""docs/replay.md holds what it shows: each example is run, and says what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import warnings
from pathlib import Path

import pytest

from bench.audit import KINDS, OUTCOMES

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"\n### (\w+)\n(.*?)(?=\n### |\n## )", PAGE, re.DOTALL))
NUMBER = re.compile(r"-?\d+\.\d+(e[+-]\d+)?")


def block(text: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def comparable(words: str) -> str:
    """Without line breaks, and without the digits of a sum that another CPU adds up otherwise."""
    return NUMBER.sub("#", " ".join(words.split()))


def test_the_page_has_each_kind_and_each_verdict() -> None:
    assert tuple(SECTIONS) == KINDS
    table = PAGE.split("\n## Verdicts\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE) == list(OUTCOMES)


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_says_what_the_page_says(kind: str, tmp_path: Path) -> None:
    shared = block(PAGE.split("\n## Kinds\n")[1], "python")
    example = tmp_path / "example.py"
    example.write_text(f"{shared}\n\n{block(SECTIONS[kind], 'python')}", encoding="utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(example), run_name="example")
    assert f"({kind})" in said.getvalue()
    assert comparable(said.getvalue()) == comparable(block(SECTIONS[kind], "text"))
