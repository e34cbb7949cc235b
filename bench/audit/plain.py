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


class PlainSide:
    """Trials of the plain step, run when they are first asked for. Trial k starts where the plain steps of trial k - 1
    ended. Holds, in host memory, the state and what came of it for each trial so far."""

    def __init__(self, subject: Subject, options: AuditOptions) -> None:
        self.subject = subject
        self.options = options
        self.before = KeptSubject(subject)
        self._trials: list[Trial] = []

    @functools.cached_property
    def _first_again(self) -> Outcome:
        self.trial(0).begin()
        return run_steps(self.subject, self.options.steps)

    @functools.cached_property
    def repeats(self) -> list[Difference]:
        """What differs between two runs of the first trial."""
        return differences(self.trial(0).outcome, self._first_again)

    @functools.cached_property
    def unrepeatable_paths(self) -> tuple[str, ...]:
        """Python state that these runs do not find, or do not leave, alike: a generator function cannot be put back."""
        found = changed_paths(self.trial(0).outcome.start, self._first_again.start)
        return (*found, *(d.name for d in self.repeats if d.what == PYTHON))

    @property
    def unrepeatable(self) -> str:
        """Why nothing can be held against the plain step; empty where it repeats."""
        return why_unrepeatable(self.repeats)

    def trial(self, number: int) -> Trial:
        while len(self._trials) <= number:
            if self._trials:
                self._trials[-1].begin()
                for _ in range(self.options.steps):
                    self.subject.run()
            start = KeptSubject(self.subject)
            seed = self.options.seed + len(self._trials)
            seed_all(seed)
            outcome = run_steps(self.subject, self.options.steps)
            self._trials.append(Trial(number=len(self._trials), seed=seed, start=start, outcome=outcome))
        return self._trials[number]

    def again(self, number: int) -> Trial:
        """The first trial under another seed."""
        first = self.trial(0)
        seed = self.options.seed - number
        first.start.restore()
        seed_all(seed)
        return Trial(number=0, seed=seed, start=first.start, outcome=run_steps(self.subject, self.options.steps))

    def put_back(self) -> None:
        """The state that the subject had before any trial."""
        self.before.restore()
