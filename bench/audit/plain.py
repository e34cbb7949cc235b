"""The plain side of an audit: run once, held against every placement."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from bench.audit.compare import PYTHON, Difference, changed_paths, differences
from bench.audit.options import AuditOptions
from bench.audit.outcome import Outcome, run_steps
from bench.audit.seeds import seed_all
from bench.audit.subject import KeptSubject, Subject
from bench.audit.tolerance import why_unrepeatable
from bench.measure.out_of_memory import is_out_of_memory


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int
    seed: int
    start: KeptSubject
    outcome: Outcome

    def begin(self) -> None:
        """Puts the plain subject, and all that is shared, in the state that the trial starts from, under its seeds."""
        self.start.restore()
        seed_all(self.seed)


KEPT_TRIALS = 2
"""Of the later trials, those that are kept for the next placement; of the others only the latest is."""


class PlainSide:
    """Trials of the plain step, run when they are first asked for. Trial k starts where the plain steps of trial k - 1
    ended. Holds, in host memory, the state and what came of it for a few of them."""

    def __init__(self, subject: Subject, options: AuditOptions) -> None:
        self.subject = subject
        self.options = options
        self.before = KeptSubject(subject)
        self._later: list[Trial] = []

    @functools.cached_property
    def first(self) -> Trial:
        return self._tried(0, self.options.seed)

    @functools.cached_property
    def _first_again(self) -> Outcome:
        self.first.begin()
        return run_steps(self.subject, self.options.steps)

    @functools.cached_property
    def repeats(self) -> list[Difference]:
        """What differs between two runs of the first trial."""
        return differences(self.first.outcome, self._first_again)

    @functools.cached_property
    def unrepeatable_paths(self) -> tuple[str, ...]:
        """Python state that these runs do not find, or do not leave, alike: a generator function cannot be put back."""
        found = changed_paths(self.first.outcome.start, self._first_again.start)
        return (*found, *(d.name for d in self.repeats if d.what == PYTHON))

    @property
    def unrepeatable(self) -> str:
        """Why nothing can be held against the plain step; empty where it repeats."""
        return why_unrepeatable(self.repeats)

    def again(self, number: int) -> Trial:
        """The first trial under another seed."""
        first = self.first
        seed = self.options.seed - number
        first.start.restore()
        seed_all(seed)
        return Trial(number=0, seed=seed, start=first.start, outcome=run_steps(self.subject, self.options.steps))

    def later(self, number: int) -> Trial | None:
        """Trial `number`, from 1; None where the plain step raises before it: its data has come to an end.

        Raises:
            RuntimeError: out of memory.
        """
        trial = [known for known in (self.first, *self._later) if known.number <= number][-1]
        while trial.number < number:
            trial.begin()
            try:
                for _ in range(self.options.steps):
                    self.subject.run()
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                return None
            trial = self._tried(trial.number + 1, self.options.seed + trial.number + 1)
            self._later = [*self._later[:KEPT_TRIALS], trial]
        return trial if trial.outcome.error is None else None

    def _tried(self, number: int, seed: int) -> Trial:
        """A trial that starts from the state as it is now."""
        start = KeptSubject(self.subject)
        seed_all(seed)
        return Trial(number=number, seed=seed, start=start, outcome=run_steps(self.subject, self.options.steps))

    def put_back(self) -> None:
        """The state that the subject had before any trial."""
        self.before.restore()
