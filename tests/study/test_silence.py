"""A silent worker that computes is slow, one that does not has hung; either way its last line is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bench.spec import Caps
from bench.study.activity import cpu_seconds, is_computing
from bench.study.worker_log import WorkerLog, ask_for_stacks
from tests.study.fault_studies import SOUND, fault_blocks, fault_study, run_faulted

SILENCE_S = 12.0
WINDOW_S = 1.0
COMPUTE = "while True: pass"
SCRIPTS = {
    "it computes": (COMPUTE, True),
    "a thread of it computes": (
        f"import threading, time\nthreading.Thread(target=lambda: exec({COMPUTE!r})).start()\ntime.sleep(60)",
        True,
    ),
    "a child of it computes": (f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {COMPUTE!r}])", True),
    "it sleeps": ("import time\ntime.sleep(60)", False),
    "it waits for a lock": ("import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", False),
    "it waits for a child": ("import subprocess, sys\nsubprocess.run(['sleep', '60'])", False),
}


@contextmanager
def started(script: str, *, stderr: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{script}"], stdout=subprocess.PIPE,
                               stderr=stderr, start_new_session=True)  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the interpreter is up
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("what", SCRIPTS)
def test_cpu_time_of_a_process_its_threads_and_children_tells_computing_from_waiting(what: str) -> None:
    script, computes = SCRIPTS[what]
    with started(script) as process:
        settle = time.monotonic() + 2 * WINDOW_S  # a child's interpreter starts up, which is computing
        while time.monotonic() < settle:
            before, began = cpu_seconds(process.pid), time.monotonic()
        while time.monotonic() < began + WINDOW_S:
            after = cpu_seconds(process.pid)
        assert is_computing(before, after, WINDOW_S) is computes


def test_a_process_that_is_gone_gets_the_benefit_of_the_doubt() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert cpu_seconds(process.pid) is None
    assert is_computing(1.0, None, 10.0)


def test_a_process_that_does_not_listen_has_no_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as file, started("import time; time.sleep(60)", stderr=file.fileno()) as process:
        assert ask_for_stacks(process, WorkerLog(file, 0)) is None


def test_silence_is_timeout_or_hung_and_names_the_line(tmp_path: Path) -> None:
    study = fault_study(*fault_blocks("compute-for-ever", "deadlock"), Caps(sample_timeout_s=SILENCE_S))
    faulted = run_faulted(tmp_path, study)
    assert faulted.outcomes == {"none": "ok", "blocks.0": "timeout", "blocks.1": "hung", SOUND: "ok"}
    computing, waiting = (faulted.trials[text].reason for text in ("blocks.0", "blocks.1"))
    assert (
        "nothing was heard of it for 12 s, though it computed; it was in _compute_for_ever (families/toy.py"
        in computing
    )
    assert "it took no CPU time: it waited; it was in _deadlock (families/toy.py:" in waiting
    log = (faulted.directory / "log.txt").read_text()
    assert "in _deadlock" in log
    assert "in run_execution" in log, "the whole stack is there"
