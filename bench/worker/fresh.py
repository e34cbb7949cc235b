"""`protocol.process=fresh`: one process takes one sample of one placement; a round is one process a placement."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.records import RoundDone, Work
from bench.records.work import Turn
from bench.spec import StudySpec
from bench.stats import End, Rounds
from bench.worker.bench import Bench
from bench.worker.gate import pass_gate
from bench.worker.journal import Journal
from bench.worker.rounds import Clock, take_sample
from bench.worker.warmup import first_step, warm_up
from bench.worker.weigh import weigh_all


def take_turn(bench: Bench, study: StudySpec, work: Work, turn: Turn, journal: Journal, clock: Clock) -> End | None:
    """First step, memory pass where the placement has none yet, warm-up of the placement itself, one sample.

    Returns:
        Why the execution ends, where this sample completed a round and there need be no other.
    """
    text, protocol = turn.placement, study.controls.protocol
    first_step(bench, [text], journal)
    with clock.stopped():
        twins = pass_gate(bench, study, [text] if text in work.missing else [], journal)
    if twins or text in journal.failed:
        return None
    if text not in work.weighed:
        weigh_all(bench, [text], work.plain, journal, clock, [p for p in work.placements if p in work.missing])
    if turn.round is None or text in journal.failed:
        return None
    warm_up(bench, [text], protocol, journal)
    if text in journal.failed:
        return None
    taken = take_sample(bench, text, turn.round, _position(work, turn), protocol, journal, clock)
    if not taken or not turn.completes_round:
        return None
    journal.write(RoundDone, round=turn.round)
    rounds = Rounds(study, [s for s in work.samples if s.round != turn.round], work.rounds_done, work.placements)
    of_round = [sample for sample in work.samples if sample.round == turn.round]
    round_s = len(work.placements) * (process_age_s() - clock.left_out_s)
    return rounds.complete([*of_round, *taken], work.placements, out_of_time=clock.exceeds_cap(round_s))


def process_age_s() -> float:
    """Seconds since this process was started, interpreter and imports included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _position(work: Work, turn: Turn) -> int:
    return sum(sample.round == turn.round for sample in work.samples)
