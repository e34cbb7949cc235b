"""A prepared search runs where neither Hydra nor MLflow is: the road to a GPU machine."""

import json
from pathlib import Path

import pytest

from bench.capacity.store import read_answer
from bench.capacity.types import SETTLED
from bench.spec import from_mapping, to_mapping
from bench.study.capacity_prepared import main
from bench.study.capacity_request import CapacityRequest, validate_request
from tests.test_walls import NOT_ON_A_COMPUTE_NODE, run_blocked
from tests.toy_study import toy_controls

PREPARED = Path(__file__).parents[2] / "results" / "prepared" / "capacity"


def write_prepared(folder: Path, **changed: object) -> Path:
    controls = to_mapping(toy_controls())
    controls["facts"] = None
    data = {
        "controls": controls,
        "placements": {"none": True},
        "limit_bytes": 2**20,
        "rounds": 0,
        "audit": "off",  # the toy counts its own passes, which is state that moves
    }
    path = folder / "prepared.json"
    path.write_text(json.dumps(data | changed))
    return path


def test_a_prepared_search_needs_torch_alone(tmp_path: Path) -> None:
    code = "from bench.study.capacity_prepared import main; raise SystemExit(main(sys.argv[1:]))"
    prepared = write_prepared(tmp_path)
    done = run_blocked(code, NOT_ON_A_COMPUTE_NODE, str(prepared), str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "results").iterdir()
    assert done.stdout.splitlines()[-1] == str(directory)
    (none,) = read_answer(directory).rows
    assert (none.ended, none.num_probes) == (SETTLED, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"controls": {}}, "model: missing"),
        ({"placements": {"explicit": ["blocks.9"]}}, "the model has no blocks.9; there are blocks.0..3"),
        ({"axis": "depth"}, "axis: no 'depth'"),
        ({"limit_bytes": 0}, "limit"),
    ],
)
def test_a_wrong_file_exits_2_and_says_why(
    tmp_path: Path, changed: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write_prepared(tmp_path, **changed)), str(tmp_path / "results")]) == 2
    assert message in capsys.readouterr().err


def test_no_file_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing.json")]) == 2
    assert "no prepared search" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(PREPARED.glob("*.json")), ids=lambda path: path.stem)
def test_the_prepared_files_are_whole(path: Path) -> None:
    request = from_mapping(CapacityRequest, json.loads(path.read_text()))
    validate_request(request)
    assert request.controls.facts is None, "the device is found out where it runs"
