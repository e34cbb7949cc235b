"""A process that answers one question of `bench.study.ask`: JSON on stdin, JSON on the last line of stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

from bench.spec import SpecError, from_mapping
from bench.step import describe_error
from bench.worker.setup import die_with_parent

R = TypeVar("R")


def answer_question(kind: type[R], answer: Callable[[R], dict[str, Any]], broke: str) -> int:
    """Reads a `kind` and prints its answer, or `{"error": …}` with what was wrong with it; returns the exit code.

    Args:
        broke: what cannot be done where `answer` raises anything but a SpecError (`the model cannot be built`).
    """
    die_with_parent()
    out = own_stdout()
    try:
        told = answer(from_mapping(kind, json.load(sys.stdin)))
    except SpecError as error:
        told = {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        told = {"error": f"{broke}: {describe_error(error)}"}
    print(json.dumps(told, allow_nan=False), file=out, flush=True)
    return 0


def own_stdout() -> TextIO:
    """The process's output, for the answer alone. What libraries print there goes to the process's complaints; C writes
    its buffers as the process ends, so its lines would come after the answer."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own
