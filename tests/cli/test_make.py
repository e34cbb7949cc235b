"""The Makefile: every target explained, and variables that reach the command as they were written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = [
    "setup",
    "sweep",
    "plan",
    "capacity",
    "forecast",
    "explain",
    "ui",
    "plots",
    "compare",
    "test",
    "check",
    "lint",
    "device-check",
    "clean",
]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


VARIABLES = ("MODEL", "DEVICE", "ARGS", "STUDY", "STUDIES", "PLACEMENT", "TARGET", "BUDGET", "LIMIT", "PORT", "JOBS")


def make(*arguments: str) -> str:
    """With nothing of a make that runs these tests, such as its `ARGS`."""
    of_make = (*VARIABLES, "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in of_make}
    done = subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def arguments_of(verb: str, *make_arguments: str) -> list[str]:
    """What the shell hands to the verb: the recipe line is run with `printf` in the place of the program."""
    recipe = next(line for line in make("-n", *make_arguments).splitlines() if f"-m bench {verb}" in line)
    before, after = recipe.split(f".venv/bin/python -m bench {verb}")
    printed = subprocess.run(
        ["sh", "-c", rf"{before} printf '%s\n' {after}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return printed.stdout.splitlines()


@pytest.mark.parametrize("target", TARGETS)
def test_help_explains_every_target(target: str) -> None:
    assert re.search(rf"^  {target} +\S", make("help"), re.MULTILINE)


def test_help_is_what_make_says_by_itself() -> None:
    assert make() == make("help")


@pytest.mark.parametrize(
    "placements",
    [
        "placements.explicit=[transformer.h.0..5:each+transformer.h.6..11,none]",
        "placements.explicit=[transformer.h.0..11:each:keep.matmul%2@no-rng]",
    ],
)
def test_placement_text_passes_through_args(placements: str) -> None:
    assert arguments_of("sweep", "sweep", f"ARGS={placements}") == ["model=gpt2", placements]


def test_brackets_in_args_are_not_file_patterns() -> None:
    assert arguments_of("sweep", "sweep", "ARGS=[M]akefile") == ["model=gpt2", "[M]akefile"]


def test_args_are_shell_words() -> None:
    arguments = ["-m", "precision=fp32,bf16-autocast", "out=a folder/answer.json"]
    assert arguments_of("sweep", "sweep", f"ARGS={shlex.join(arguments)}") == ["model=gpt2", *arguments]


def test_model_and_device_are_options_of_the_sweep() -> None:
    assert arguments_of("sweep", "sweep", "MODEL=gpt2,t5", "DEVICE=cpu") == ["model=gpt2,t5", "device=cpu"]


def test_a_model_that_is_named_as_a_target_is_refused_before_anything_is_measured() -> None:
    done = subprocess.run(["make", "-n", "sweep", "gpt2-tiny"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "MODEL=gpt2-tiny" in done.stderr
    assert "bench sweep" not in done.stdout


def test_study_names_what_is_redrawn() -> None:
    assert arguments_of("plots", "plots", "STUDY=gpt2-0123abcd") == ["study=gpt2-0123abcd"]


def test_device_check_needs_no_environment_of_ours() -> None:
    recipe = make("-n", "device-check", "DEVICE_PYTHON=python9")
    for prepared in ("gpt2-bf16-8x1024-cuda", "gpt2-memory-8x1024-cuda"):
        assert f"python9 -m bench.study.prepared results/prepared/{prepared}.json results\n" in recipe
    assert ".venv" not in recipe


def test_a_missing_python_is_said_before_anything_is_made() -> None:
    recipe = make("-n", "-B", "setup", "PYTHON=")
    assert recipe.index("Python 3.11 or newer is needed") < recipe.index("venv .venv")
