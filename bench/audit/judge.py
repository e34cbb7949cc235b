"""The verdict: trials of a replayed step held against those of the plain one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.audit.causes import explain, moved_by_replays, of_unrepeatable, parts_beyond_noise
from bench.audit.compare import Difference, differences, wrappers_own
from bench.audit.outcome import Outcome, is_compiled, run_steps
from bench.audit.plain import PlainSide, Trial
from bench.audit.settings import GRADIENT_MODE
from bench.audit.subject import Subject
from bench.audit.tolerance import is_rounding, outside, rounding_tolerance
from bench.audit.verdict import (
    ERROR,
    FLAKY,
    INVALID,
    UNSUPPORTED,
    VALID,
    WITHIN_TOLERANCE,
    Finding,
    OpDifference,
    Verdict,
    unsupported,
)
from bench.audit.watch import Watch
from bench.audit.words import where_restored
from bench.placement.errors import UnsupportedPlacementError, WrongGradientsError

Replayed = Callable[[Trial], AbstractContextManager[Subject]]
"""Brings about the replayed step at the start of a trial, and takes it off again."""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What the diagnosing run of one trial showed."""

    findings: tuple[Finding, ...]
    first_difference: OpDifference | None
    is_rounding: bool
    """Whether nothing but rounding is off."""
    unrepeatable: tuple[Finding, ...] = ()
    """What a replay moves of the state that the plain step cannot be put back to, or makes otherwise in a step whose
    losses and gradients are off by no more than those of the plain one are from run to run."""


def judge(plain: PlainSide, replayed: Replayed, name: str, batch_note: str = "", *, restores: bool = False) -> Verdict:
    """Runs the trials that the plain side's options ask for, and explains the first that differs.

    Args:
        restores: whether the placement puts state back already, so that it need not be told to.

    Raises:
        RuntimeError: out of memory, which says nothing about the placement.
    """
    try:
        verdict = _judge(plain, replayed, name, batch_note)
    finally:
        plain.put_back()
    findings = tuple(map(where_restored, verdict.findings)) if restores else verdict.findings
    return dataclasses.replace(verdict, findings=findings)


def _judge(plain: PlainSide, replayed: Replayed, name: str, batch_note: str) -> Verdict:
    options = plain.options
    error = plain.first.outcome.error
    why = plain.unrepeatable if error is None else _raises(error)
    if why:
        return _without_baseline(plain, replayed, name, why, batch_note)
    trials = _Trials(plain, replayed)
    if trials.judge(plain.first):
        for number in range(1, options.confirm):
            trials.judge(plain.again(number))
        if options.confirm and trials.may_be_of_the_step:
            trials.go_on_to(1)
        elif options.confirm:
            trials.judge(plain.again(options.confirm))
    is_always = bool(trials.differing) and trials.differing == trials.run
    if trials.refusal is None and not is_always:
        for number in range(1, options.trials):
            trials.go_on_to(number)
    if trials.refusal is not None:
        return unsupported(name, str(trials.refusal), steps=options.steps, batch_note=batch_note)
    outcome = VALID if trials.tolerance == 0 else WITHIN_TOLERANCE
    if trials.differing:
        outcome = INVALID if is_always else FLAKY
    seen = trials.seen if trials.differing else None
    return Verdict(
        outcome=outcome,
        placement=name,
        findings=seen.findings if seen else (),
        trials=trials.run,
        differing=trials.differing,
        tolerance=trials.tolerance,
        steps=options.steps,
        first_difference=seen.first_difference if seen else None,
        batch_note=batch_note,
        notes=tuple(sorted(trials.notes)),
    )


class _Trials:
    """Trials run so far, and what came of them."""

    def __init__(self, plain: PlainSide, replayed: Replayed) -> None:
        self._plain = plain
        self._replayed = replayed
        self.run = self.differing = 0
        self.tolerance = 0.0
        self.notes: set[str] = set()
        self.seen: _Seen | None = None
        """Of the first trial that differed."""
        self.error: Exception | None = None
        """What the latest replayed steps raised."""
        self._last_number = 0
        self._has_ended = False
        """Whether the plain steps come no further."""
        self.refusal: UnsupportedPlacementError | None = None

    @property
    def may_be_of_the_step(self) -> bool:
        """Whether what differed may belong to the number of the step, as where a router flips in 1 step of 20: nothing
        that was seen to change explains it, and no step ended in an error."""
        if self.error is not None or self.seen is None or self.seen.first_difference is None:
            return False
        return self.seen.findings[0].where == self.seen.first_difference.op

    def go_on_to(self, number: int) -> None:
        """Judges a later trial, if it was not judged yet and the plain steps come that far."""
        if number <= self._last_number or self._has_ended or self.refusal is not None:
            return
        self._last_number = number
        trial = self._plain.later(number)
        if trial is None:
            self._has_ended = True
            steps = number * self._plain.options.steps
            self.notes.add(f"no trials after step {steps}, since the plain step raises there")
        else:
            self.judge(trial)

    def judge(self, trial: Trial) -> bool:
        """Whether the trial differs."""
        plain = self._plain
        if self.refusal is not None:
            return False
        outcome, self.refusal = _run(plain, self._replayed, trial)
        if self.refusal is not None:
            return False
        self.run += 1
        self.error = outcome.error
        self.notes |= _warnings(trial.outcome, outcome)
        self.notes |= {f"the wrapper keeps {path} on the model" for path in wrappers_own(trial.outcome, outcome)}
        found, used = outside(differences(trial.outcome, outcome), plain.repeats, outcome.eps)
        self.tolerance = max(self.tolerance, used)
        if not found and (plain.unrepeatable_paths or used > rounding_tolerance(outcome.eps)):
            return self._moves_what_does_not_repeat(trial, outcome)
        if not found:
            return False
        if self.seen is None or is_rounding(found, trial.outcome, outcome):
            seen = _diagnose(plain, self._replayed, trial, found, outcome)
            if seen.is_rounding:
                self.tolerance = max(self.tolerance, rounding_tolerance(outcome.eps))
                return False
            self.seen = self.seen or seen
        self.differing += 1
        return True

    def _moves_what_does_not_repeat(self, trial: Trial, outcome: Outcome) -> bool:
        """State that cannot be put back is elsewhere after each run, so it cannot be compared, only watched; and where
        the plain step is far from repeating, its own noise could hide a fault, so that the passes are compared."""
        if self.seen is None:
            seen = _diagnose(self._plain, self._replayed, trial, [], outcome)
            if not seen.unrepeatable:
                return False
            self.seen = dataclasses.replace(seen, findings=seen.unrepeatable)
        self.differing += 1
        return True


def _run(plain: PlainSide, replayed: Replayed, trial: Trial) -> tuple[Outcome, UnsupportedPlacementError | None]:
    """What the replayed step comes to, and why it was refused, if it was."""
    trial.begin()
    try:
        with replayed(trial) as subject:
            outcome = run_steps(subject, plain.options.steps)
    except UnsupportedPlacementError as refusal:
        return Outcome(), refusal
    error = outcome.error
    if isinstance(error, UnsupportedPlacementError) and not isinstance(error, WrongGradientsError):
        return outcome, error
    return outcome, None


def _diagnose(plain: PlainSide, replayed: Replayed, trial: Trial, found: list[Difference], before: Outcome) -> _Seen:
    """Runs the trial once more and watches it op by op; a compiled model can be watched only from outside."""
    trial.begin()
    with replayed(trial) as subject:
        watch = Watch(subject)
        if is_compiled(subject.model):
            findings, first = explain(watch, found, before.error)
            return _Seen(
                findings=findings, first_difference=first, is_rounding=is_rounding(found, trial.outcome, before)
            )
        with watch.watching():
            again = run_steps(subject, plain.options.steps)
        findings, first = explain(watch, found, before.error or again.error)
    rounding = (
        before.error is None
        and is_rounding(found, trial.outcome, before)
        and not moved_by_replays(watch)
        and (first is None or (watch.has_reentrant and findings[0].where in (first.op, GRADIENT_MODE)))
        and not any(f.cure == "@no-early-stop" for f in findings)
    )
    unrepeatable = of_unrepeatable(watch, plain.unrepeatable_paths)
    if not unrepeatable and parts_beyond_noise(watch):
        unrepeatable = findings[:1]
    return _Seen(findings=findings, first_difference=first, is_rounding=rounding, unrepeatable=unrepeatable)


def _without_baseline(plain: PlainSide, replayed: Replayed, name: str, why: str, batch_note: str) -> Verdict:
    """The plain step raises or does not repeat. Where a replay demonstrably leaves its first pass, the placement is
    invalid all the same; where it only hides that the plain step raises, too."""
    trial = plain.first
    outcome, refusal = _run(plain, replayed, trial)
    if refusal is not None:
        return unsupported(name, str(refusal), steps=plain.options.steps, batch_note=batch_note)
    hides = trial.outcome.error is not None and outcome.error is None
    seen = _diagnose(plain, replayed, trial, [], outcome)
    causes = tuple(f for f in seen.findings if f.kind != ERROR)
    hidden = Finding(
        kind=ERROR,
        unit="",
        where="the plain step",
        text=f"{why}, and the replayed step hides it",
        cure="mend the plain step",
    )
    is_invalid = bool(causes) or hides
    return Verdict(
        outcome=INVALID if is_invalid else UNSUPPORTED,
        placement=name,
        findings=(causes or (hidden,)) if is_invalid else (),
        trials=1,
        differing=int(is_invalid),
        tolerance=0.0,
        steps=plain.options.steps,
        first_difference=seen.first_difference,
        batch_note=batch_note,
        notes=(why,),
    )


def _raises(error: Exception) -> str:
    return f"the plain step raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _warnings(plain: Outcome, replayed: Outcome) -> set[str]:
    return {f"the replayed step warns: {text[:300]}" for text in replayed.warnings - plain.warnings}
