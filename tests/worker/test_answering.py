"""A process that answers one question, whatever the libraries in it print."""

from __future__ import annotations

import json
import subprocess
import sys

ANSWERER = """
import ctypes, dataclasses
from bench.spec import SpecError
from bench.worker.answering import answer_question

@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    number: int

def answer(question):
    print("said by Python")
    ctypes.CDLL(None).printf(b"said by C\\n")
    if question.number < 0:
        raise SpecError("number: it is below 0")
    return {"half": 1 / (question.number - 1)}

raise SystemExit(answer_question(Question, answer, "it cannot be halved"))
"""


def asked(question: object) -> tuple[object, str]:
    """(the answer, complaints)."""
    process = subprocess.run(
        [sys.executable, "-c", ANSWERER], input=json.dumps(question), capture_output=True, text=True, check=True
    )
    (line,) = process.stdout.splitlines()
    return json.loads(line), process.stderr


def test_the_answer_is_all_that_is_printed_and_other_words_are_complaints() -> None:
    answer, complaints = asked({"number": 3})
    assert answer == {"half": 0.5}
    assert "said by Python" in complaints
    assert "said by C" in complaints


def test_what_was_wrong_with_the_question_is_the_answer() -> None:
    assert asked({"number": -1})[0] == {"error": "number: it is below 0"}
    assert "number" in str(asked({"digit": 1})[0])


def test_what_breaks_is_told_with_what_could_not_be_done() -> None:
    answer, complaints = asked({"number": 1})
    assert answer == {"error": "it cannot be halved: ZeroDivisionError: division by zero"}
    assert "Traceback" in complaints
