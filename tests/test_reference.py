"""The committed evidence reads, and says what the README says of it."""

import re
from pathlib import Path

import pytest

from bench.capacity.key import capacity_key
from bench.capacity.store import capacity_path, read_answer, read_capacity_records, read_spec
from bench.capacity.summary import summarise
from bench.frontier import build_frontier, read_frontier
from bench.records import read_records, read_study

REPOSITORY = Path(__file__).parents[1]
STUDIES = sorted(path.parent for path in (REPOSITORY / "results" / "reference").rglob("study.json"))
CAPACITIES = sorted(path.parent for path in (REPOSITORY / "results" / "reference").rglob("capacity.json"))


@pytest.mark.parametrize("directory", STUDIES, ids=lambda path: path.name)
def test_a_reference_study_still_gives_its_frontier(directory: Path) -> None:
    frontier = build_frontier(read_study(directory), read_records(directory))
    assert frontier == read_frontier(directory)
    assert len(frontier.frontier) >= 4


@pytest.mark.parametrize("directory", CAPACITIES, ids=lambda path: path.name)
def test_a_reference_capacity_still_gives_its_answer(directory: Path) -> None:
    spec = read_spec(directory)
    answer = summarise(spec, read_capacity_records(directory))
    assert answer == read_answer(directory)
    assert answer.is_complete
    asked = {name: getattr(spec, name) for name in ("limit_bytes", "limit_source", "headroom", "keep", "evaluation")}
    assert spec.key == capacity_key(spec.controls, spec.axis, **asked)
    assert capacity_path(directory.parent, spec) == directory
    assert len(answer.frontier) >= 2


def test_reference_studies_hold_no_paths_of_the_machine() -> None:
    for path in (REPOSITORY / "results" / "reference").rglob("*.json*"):
        assert not re.search(r'"/[a-z]+/', path.read_text()), path


def test_the_readme_shows_a_reference_study() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    plots = re.findall(r"\((results/reference/[^)]+)\)", readme)
    assert plots
    assert all((REPOSITORY / plot).is_file() for plot in plots)
    assert len(readme.splitlines()) < 150
