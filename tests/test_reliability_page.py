"""docs/reliability.md holds what it claims: every test that it names exists, every outcome is explained."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bench.spec import OUTCOMES

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
COLUMNS = ("fault", "how it is injected", "lost", "outcome", "test")
NUM_FAULTS = 18


def table(title: str) -> list[dict[str, str]]:
    """The rows of the first table under a heading, by column."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    head, _, *body = rows
    return [dict(zip(head, row, strict=True)) for row in body]


FAULTS = table("The fault table")
MEANINGS = table("What an outcome means, and what to do")
NAMED = sorted({name for row in FAULTS for name in re.findall(r"`(\S+?::\S+?)`", row["test"])})


def names_of_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_fault_says_how_it_is_injected_what_is_lost_and_which_test_shows_it() -> None:
    assert len(FAULTS) >= NUM_FAULTS
    for row in FAULTS:
        assert tuple(row) == COLUMNS
        assert all(row.values()), row
        assert "::" in row["test"], row


@pytest.mark.parametrize("name", NAMED)
def test_every_test_that_the_page_names_exists(name: str) -> None:
    file, _, test = name.partition("::")
    assert test in names_of_tests(REPOSITORY / "tests" / file)


def test_every_outcome_is_explained_in_the_order_of_the_closed_set() -> None:
    assert [row["outcome"] for row in MEANINGS] == [f"`{outcome}`" for outcome in OUTCOMES]
    assert all(row["what it means"] and row["what to do"] for row in MEANINGS)


def test_every_outcome_is_reached_by_a_fault_of_the_table() -> None:
    reached = {word for row in FAULTS for word in re.findall(r"`([a-z-]+)`", row["outcome"])}
    assert reached == set(OUTCOMES)
