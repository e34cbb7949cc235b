"""`recommend`: from a stored study to a decision, a file and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.placement import Placement
from tests.compare.studies import measured, write_measured

FIVE = {
    "none": (1.0, 1000),
    "blocks.0": (1.02, 900),
    "blocks.0..1:each": (1.10, 700),
    "blocks.0..1": (1.60, 660),
}


@pytest.fixture
def study(folder: Path) -> str:
    return write_measured(folder / "results", measured(FIVE)).name


def test_it_answers_saves_and_writes_json(study: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", f"study={study}", "budget=750MiB", "save=placement.json", "out=answer.json"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("use blocks.0..1:each\n")
    assert "the answer in 100 % of resamples" in said
    placement = Placement.load(folder / "placement.json")
    assert placement.text == "blocks.0..1:each"
    assert placement.origin is not None
    assert (placement.origin.study, placement.origin.versions["torch"]) == (study, "2.13.0")
    assert placement.origin.peak_allocated_bytes == 700 * 2**20
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["recommendation"]["chosen"]["placement"] == "blocks.0..1:each"
    assert answer["exit_code"] == 0


@pytest.mark.parametrize(
    ("wish", "exit_code", "said"),
    [
        ("budget=60%", 0, "use blocks.0..1:each"),  # 500 MiB are always there, and 60 % of the other 500
        ("budget=2GiB", 0, "none already fits 2048 MiB: use none"),
        ("budget=100MiB", 1, "no placement can fit 100.0 MiB"),
        ("budget=500MiB", 1, "no measured placement fits 500.0 MiB; the lowest is blocks.0..1"),
        ("budget=500MiB", 1, "budget=500MiB"),
        ("slowdown=5%", 0, "use blocks.0\n"),
        ("card=rtx4090", 0, "0.39 context (approximate)"),
        ("card=24GB", 0, "none already fits 20.68 GiB"),
    ],
)
def test_every_wish_has_an_answer_and_1_says_that_no_placement_is_one(
    study: str, wish: str, exit_code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", f"study={study}", wish]) == exit_code
    assert said in capsys.readouterr().out


def test_a_long_placement_goes_by_its_name_and_is_written_out_once(capsys: pytest.CaptureFixture[str]) -> None:
    study = Path(__file__).parents[2] / "results" / "reference" / "cpu" / "gpt2-654cc0a9"
    assert main(["recommend", f"study={study}", "budget=2300MiB"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("use planned (2,297.6 MiB)\n")
    long = [line for line in said.splitlines() if len(line) > 300]
    assert len(long) == 1
    assert long[0].startswith("planned (2,297.6 MiB) is transformer.h.0.ln_1/transformer.h.0.attn.c_attn+")


def test_a_format_prints_settings_or_why_not(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", f"study={study}", "budget=750MiB", "format=megatron"]) == 0
    assert "--recompute-method uniform --recompute-num-layers 1" in capsys.readouterr().out
    assert main(["recommend", f"study={study}", "budget=750MiB", "format=torchtitan"]) == 0
    assert "in torchtitan it cannot be said: torchtitan wraps blocks without early stop" in capsys.readouterr().out


def test_where_there_is_no_answer_nothing_is_saved(
    study: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", f"study={study}", "budget=500MiB", "save=placement.json"]) == 1
    assert "nothing saved in placement.json: there is no placement to use\n" in capsys.readouterr().out
    assert not (folder / "placement.json").exists()
    (folder / "placement.json").write_text("of an earlier run")
    assert main(["recommend", f"study={study}", "budget=500MiB", "save=placement.json"]) == 1
    assert "what it holds is from before" in capsys.readouterr().out
    assert (folder / "placement.json").read_text() == "of an earlier run"


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (["budget=1GiB", "slowdown=5%"], "budget and slowdown: ask for one of them"),
        (["budget=much"], "is no size"),
        (["slowdown=5"], "is no share; write 5%"),
        (["card=rtx4091"], "none of a100-40gb"),
        (["card=1MiB"], "no more than the context"),
        (["context=1MiB"], "say card=24GB as well"),
        (["format=deepspeed"], "none of transformers, torchtitan, megatron"),
        (["format=[torchtitan,megatron]"], "none of transformers, torchtitan, megatron"),
        (["study=t5"], "no study 't5'"),
        (["save=nowhere/placement.json"], "does not exist"),
    ],
)
def test_a_wrong_request_is_refused(
    study: str, wishes: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [] if any(wish.startswith("study=") for wish in wishes) else [f"study={study}"]
    assert main(["recommend", *named, *wishes]) == 2
    assert said in capsys.readouterr().err


def test_it_answers_without_torch(study: str, folder: Path) -> None:
    code = (
        "import sys; from bench.cli.main import main; "
        f"code = main(['recommend', 'study={study}', 'budget=750MiB', 'save=placement.json', 'format=megatron']); "
        "sys.exit(code or ('torch is loaded' if 'torch' in sys.modules else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "use blocks.0..1:each" in done.stdout
