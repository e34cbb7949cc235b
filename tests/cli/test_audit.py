"""The verb `audit`, with a real process on a toy model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main

pytestmark = pytest.mark.usefixtures("folder")
TOY = (
    *("model=gpt2-tiny", "model.target=tests.families.moving", "+model.settings.moves=norm"),
    *("workload.micro_batch=8", "device=cpu", "device.threads=1", "tracker=none"),
)


def audit(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["audit", "out=answer.json", *TOY, *overrides])
    return code, json.loads(Path("answer.json").read_text())


def test_an_invalid_placement_is_an_answer_with_its_cause_its_cure_and_the_op(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, answer = audit("placement=blocks.0", "trials=1")
    assert code == 0
    (verdict,) = answer["verdicts"]
    assert (verdict["outcome"], verdict["findings"][0]["kind"]) == ("invalid", "state")
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("blocks.0: invalid (")
    assert verdict["findings"][0]["text"] in said
    assert "what to do: @restore" in said
    assert f"first op that differs: {verdict['first_difference']['op']}" in said


def test_several_placements_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = audit("placement=[blocks.0,blocks.0@restore]", "trials=1")
    assert code == 0
    assert [verdict["outcome"] for verdict in answer["verdicts"]] == ["invalid", "valid"]
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["placement", "verdict", "kind"]
    assert rows[0].split()[:3] == ["blocks.0", "invalid", "state"]
    assert any(row.split()[:2] == ["blocks.0@restore", "valid"] for row in rows)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("placement=blocks.9", "blocks.9"),
        ("placement=none", "nothing to audit"),
        ("steps=1", "at least 2"),
    ],
)
def test_a_wrong_request_is_refused(override: str, said: str) -> None:
    code, answer = audit("placement=blocks.0", override)
    assert code == 2
    assert said in answer["error"]
