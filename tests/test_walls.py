"""The two walls, held at run time: what a compute node and what a reader of results can do without."""

import subprocess
import sys
from pathlib import Path

from bench.records import MemorySample, TimeSample, read_records, study_path, write_study
from tests.toy_study import EACH, toy_study

BLOCK = """
import importlib.util, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in {blocked!r} else find_spec(name, *rest)
"""
"""As if the packages were not installed, to those who import them and to those who only ask."""
NOT_ON_A_COMPUTE_NODE = ("hydra", "omegaconf", "mlflow", "pandas", "seaborn", "matplotlib", "rich", "scipy")
NOT_FOR_A_READER = ("torch", "transformers")


def run_blocked(code: str, blocked: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_worker_needs_torch_alone(tmp_path: Path) -> None:
    study = toy_study()
    directory = study_path(tmp_path, study)
    write_study(directory, study)
    code = "from bench.worker.__main__ import main; raise SystemExit(main(sys.argv[1:]))"
    done = run_blocked(code, NOT_ON_A_COMPUTE_NODE, str(directory))
    assert done.returncode == 0, done.stderr
    records = read_records(directory)
    assert {s.placement for s in records.of(MemorySample)} == {"none", EACH}
    assert len(records.of(TimeSample)) == 6


def test_reading_results_needs_no_torch() -> None:
    code = """
import bench.frontier, bench.study, bench.track, bench.report, bench.records, bench.spec, bench.stats
from bench.placement import generate_placements, parse_placement
import bench.report.frontier_plot, bench.track.publish, bench.cli.sweep, bench.cli.project
"""
    done = run_blocked(code, NOT_FOR_A_READER)
    assert done.returncode == 0, done.stderr


def test_a_worker_by_hand_says_what_it_takes(tmp_path: Path) -> None:
    for arguments, message in (([], "usage: python -m bench.worker STUDY_DIR"), ([str(tmp_path)], "no study.json")):
        done = subprocess.run(
            [sys.executable, "-m", "bench.worker", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert message in done.stderr
