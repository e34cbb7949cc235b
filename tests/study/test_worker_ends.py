"""However a worker ends, the placement at work gets the outcome, and the next worker goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bench.records import Stopped
from bench.study.blame import Ending, blame, is_from_outside, kernel_kills
from bench.study.worker_log import innermost_line
from tests.study.fault_studies import NUMBERS, SOUND, Faulted, fault_blocks, fault_study, run_faulted

ENDS = {
    "null-pointer": ("crashed", "the worker died by SIGSEGV in string_at (ctypes/__init__.py:"),
    "terminate": ("crashed", "the worker died by SIGABRT in <lambda> (families/toy.py:"),
    "floating-point-exception": ("crashed", "the worker died by SIGFPE in <lambda> (families/toy.py:"),
    "kill": ("crashed", "the worker died by SIGKILL (stage memory)"),
    "exit-at-once": ("crashed", "something ended the worker with exit code 0, as os._exit() and exit() do"),
    "exit-at-once-1": ("crashed", "something ended the worker with exit code 1, as os._exit() and exit() do"),
    "6.forward:bad-alloc": ("oom", "memory ran out in native code: "),
}


@pytest.fixture(scope="module")
def faulted(tmp_path_factory: pytest.TempPathFactory) -> Faulted:
    return run_faulted(tmp_path_factory.mktemp("faulted"), fault_study(*fault_blocks(*ENDS)))


@pytest.mark.parametrize(("block", "fault"), list(enumerate(ENDS)))
def test_a_placement_that_takes_its_process_down_is_a_row_with_a_reason(
    faulted: Faulted, block: int, fault: str
) -> None:
    outcome, reason = ENDS[fault]
    trial = faulted.trials[f"blocks.{block}"]
    assert trial.outcome == outcome
    assert trial.reason.startswith(reason)
    assert trial.reason.endswith("(stage memory)")
    assert all(getattr(trial, name) is None for name in NUMBERS)


def test_what_native_code_says_before_it_aborts_is_in_the_reason(faulted: Faulted) -> None:
    assert "terminate called without an active exception" in faulted.trials["blocks.1"].reason
    assert "std::bad_alloc" in faulted.trials["blocks.6"].reason


def test_the_others_are_measured_however_often_a_process_ends(faulted: Faulted) -> None:
    assert faulted.outcomes["none"] == faulted.outcomes[SOUND] == "ok"
    assert faulted.num_processes == len(ENDS) + 2, "one a fault, one more for the kill that is forgiven, and the last"
    assert len(faulted.records.of(Stopped)) == 1


def test_a_kill_by_the_kernel_for_want_of_memory_is_oom() -> None:
    outcome, reason = blame(Ending(exit_code=-signal.SIGKILL, killed_by_kernel=True))
    assert outcome == "oom"
    assert reason == "the kernel killed the worker: the machine's memory ran out"
    assert not is_from_outside(Ending(exit_code=-signal.SIGKILL, killed_by_kernel=True))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_a_person_or_scheduler_sends_may_not_be_meant_for_the_placement(number: signal.Signals) -> None:
    assert is_from_outside(Ending(exit_code=-number))


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL])
def test_a_signal_that_code_raises_by_itself_is_the_placements(number: signal.Signals) -> None:
    assert not is_from_outside(Ending(exit_code=-number))
    assert blame(Ending(exit_code=-number)) == ("crashed", f"the worker died by {number.name}")


def test_a_warning_long_before_the_end_is_no_reason_for_it() -> None:
    log = ("CUDA out of memory, trying again", "step 1", "step 2", "step 3")
    assert blame(Ending(exit_code=3, log_tail=log))[0] == "crashed"
    assert blame(Ending(exit_code=1, log_tail=(*log, "libgomp: Out of memory allocating 4096 bytes")))[0] == "oom"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_kernel_kills_are_counted_in_the_own_cgroup(tmp_path: Path) -> None:
    own, machine = tmp_path / "cgroup", tmp_path / "vmstat"
    write(machine, "nr_free_pages 12\noom_kill 7\n")
    assert kernel_kills(tmp_path / "groups", own, machine) == 7, "no cgroup says: the machine does"
    write(own, "9:cpu:/\n4:memory:/jobs/12\n0::/jobs/13\n")
    write(tmp_path / "groups/memory/jobs/12/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert kernel_kills(tmp_path / "groups", own, machine) == 2
    write(tmp_path / "groups/jobs/13/memory.events", "low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\n")
    assert kernel_kills(tmp_path / "groups", own, machine) == 1
    assert kernel_kills(tmp_path, tmp_path / "none", tmp_path / "none") is None


def test_the_innermost_line_is_that_of_the_thread_asked_for() -> None:
    dump = [
        "Current thread 0x00007f01 (most recent call first):",
        '  File "/here/lib/worker.py", line 7 in loop',
        '  File "/here/lib/threading.py", line 1012 in run',
        "Thread 0x00007f02 (most recent call first):",
        '  File "/here/models/own.py", line 31 in forward',
    ]
    assert innermost_line(dump, "current") == "loop (lib/worker.py:7)"
    assert innermost_line(dump, "main") == "forward (models/own.py:31)"
    assert innermost_line(["no dump", os.sep], "main") is None
