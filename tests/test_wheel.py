"""Installed from a wheel, beside somebody's own `models` and `conf`: our configs find ours, their targets theirs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "LICENSE", "bench", "models", "conf")
MINE = """
import torch
from models.layers import Block  # of this folder, not of the zoo

def build(layers=3):
    return torch.nn.Sequential(*[Block() for _ in range(layers)], torch.nn.Flatten(0))

def batch(model, workload):
    return torch.randn(workload.micro_batch, 32)

def loss(model, batch):
    return model(batch).square().mean()
"""
LAYERS = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))

    def forward(self, x):
        return x + self.mlp(x)
"""


def test_every_room_is_among_the_packages() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    files = (ROOT / "bench").rglob("*.py")
    rooms = {".".join(file.relative_to(ROOT).parent.parts) for file in files}
    assert rooms | {"bench.installed.conf", "bench.installed.models"} == set(listed)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:  # a copy: building writes beside the sources
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    build = [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_zoo_and_configs_inside_the_package(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"bench", wheel.name.rpartition("-py3")[0] + ".dist-info"}
    for folder, pattern in (("conf", "*.yaml"), ("models", "*.py")):
        there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(pattern)}
        assert there == {
            name.removeprefix("bench/installed/")
            for name in names
            if name.startswith(f"bench/installed/{folder}/") and name.endswith(pattern[1:])
        }
    viewer = {path.relative_to(ROOT).as_posix() for path in (ROOT / "bench/report").glob("memory_viewer*")}
    assert viewer
    assert viewer <= set(names)


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`boundary-bench` of another environment, which borrows the libraries of this one but not its install of us."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A folder on the path by a .pth file does not have its own .pth files read, so the editable install stays out.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin" / "boundary-bench"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a `models` and a `conf` that have nothing to do with ours."""
    for name, text in (
        ("models/__init__.py", ""),
        ("models/gpt2.py", "raise RuntimeError('this is not the zoo')"),
        ("models/mine.py", MINE),
        ("models/layers.py", LAYERS),
        ("conf/sweep.yaml", "theirs: true"),
        ("conf/model/gpt2-tiny.yaml", "theirs: true"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def sweep(command: Path, project: Path, *overrides: str) -> dict[str, str]:
    """Placement → outcome, from the answer of a sweep in `project`."""
    fixed = ("protocol=quick", "device=cpu", "device.threads=1", "tracker=none", "out=answer.json")
    done = subprocess.run(
        [str(command), "sweep", *overrides, *fixed],
        cwd=project,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads((project / "answer.json").read_text())
    assert Path(answer["study"]).parent == project / "results"
    return {trial["placement"]: trial["outcome"] for trial in answer["frontier"]["trials"]}


@pytest.mark.slow
def test_a_config_of_ours_finds_our_zoo(command: Path, project: Path) -> None:
    outcomes = sweep(command, project, "model=gpt2-tiny", "placements.explicit=[none,transformer.h.0..3:each]")
    assert outcomes == {"none": "ok", "transformer.h.0..3:each": "ok"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["models.mine", "models/mine.py"])
def test_a_model_of_theirs_is_found_in_their_own_package(command: Path, project: Path, target: str) -> None:
    outcomes = sweep(command, project, "model=custom", f"model.target={target}", "placements.explicit=[none,0..2:each]")
    assert outcomes == {"none": "ok", "0..2:each": "ok"}
