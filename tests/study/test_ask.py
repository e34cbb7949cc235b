"""A question to a process that ends without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.study import WorkerError
from bench.study.ask import ask_process
from tests.toy_study import toy_controls

CRASHES = """
import ctypes, sys
def reads_address_zero():
    ctypes.string_at(0)
reads_address_zero()
"""
GIVES_UP = """
import sys
print("USDT: noise of the profiler", file=sys.stderr)
sys.exit("no such thing")
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (CRASHES, "the question died by Segmentation fault in string_at ("),
        (GIVES_UP, "the question ended with exit code 1:\nno such thing"),
    ],
)
def test_one_that_dies_says_where_and_one_that_gives_up_why(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answers_nothing.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(WorkerError) as raised:
        ask_process("answers_nothing", {}, toy_controls(), dict, what="the question", timeout_s=60.0)
    assert str(raised.value).startswith(said)
