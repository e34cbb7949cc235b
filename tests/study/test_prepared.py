"""A prepared study runs where neither Hydra nor MLflow is: the road to a GPU machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.records import MemorySample, read_records
from bench.spec import Controls, from_mapping, to_mapping, validate_controls
from bench.study.prepared import main
from tests.test_walls import NOT_ON_A_COMPUTE_NODE, run_blocked
from tests.toy_study import toy_controls

PREPARED = Path(__file__).parents[2] / "results" / "prepared"


def write_prepared(folder: Path, **changed: object) -> Path:
    controls = to_mapping(toy_controls())
    controls["facts"] = None
    data = {"controls": controls, "placements": {"none": True, "each": True}, "caps": {"time_cap_s": 60.0}}
    data |= {"audit": "off"} | changed  # the toy counts its own passes, which is state that moves
    path = folder / "prepared.json"
    path.write_text(json.dumps(data))
    return path


def test_a_prepared_study_needs_torch_alone(tmp_path: Path) -> None:
    code = "from bench.study.prepared import main; raise SystemExit(main(sys.argv[1:]))"
    prepared = write_prepared(tmp_path)
    done = run_blocked(code, NOT_ON_A_COMPUTE_NODE, str(prepared), str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    (study,) = (tmp_path / "results").iterdir()
    assert f"{study}: measured" in done.stdout
    assert len(read_records(study).of(MemorySample)) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"controls": {}}, "model: missing"),
        ({"placements": {"explicit": ["blocks.9"]}}, "the model has no blocks.9; there are blocks.0..3"),
        ({"placements": {"policies": ["matmull"]}}, "torch has no op 'matmull'"),
        ({"caps": {"time_cap_s": -1}}, "caps.time_cap_s: must be above 0"),
    ],
)
def test_a_wrong_file_exits_2_and_says_why(
    tmp_path: Path, changed: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write_prepared(tmp_path, **changed)), str(tmp_path / "results")]) == 2
    assert message in capsys.readouterr().err


def test_no_file_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing.json")]) == 2
    assert "no prepared study" in capsys.readouterr().err
    assert main([]) == 2


@pytest.mark.parametrize("path", sorted(PREPARED.glob("*.json")), ids=lambda path: path.stem)
def test_the_prepared_studies_of_the_repository_are_valid(path: Path) -> None:
    data = json.loads(path.read_text())
    validate_controls(from_mapping(Controls, data["controls"]))
    assert data["caps"]["time_cap_s"] < 360


def test_without_a_gpu_the_device_check_says_so() -> None:
    path = PREPARED / "gpt2-bf16-8x1024-cuda.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.study.prepared", str(path), "/nonexistent"],
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", "HOME": "/tmp"},
        cwd=PREPARED.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no CUDA device can be used here" in done.stderr
