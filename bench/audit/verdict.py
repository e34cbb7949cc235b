"""What an audit says of a placement: a verdict, what it found, and the first op that replayed otherwise. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

VALID, WITHIN_TOLERANCE, INVALID, FLAKY, UNSUPPORTED = (
    "valid",
    "valid-within-tolerance",
    "invalid",
    "flaky",
    "unsupported",
)
OUTCOMES = (VALID, WITHIN_TOLERANCE, INVALID, FLAKY, UNSUPPORTED)
"""`valid` is equal to the bit; `flaky` differs in some trials and not in others; `unsupported` could not be judged."""

RNG, STATE, ATTRIBUTE, EXTERNAL, MUTATION, AUTOCAST = "rng", "state", "attribute", "external", "mutation", "autocast"
CONTROL, GRADIENT, STRUCTURE, HOOK, ERROR = "control", "gradient", "structure", "hook", "error"
KINDS = (RNG, STATE, ATTRIBUTE, EXTERNAL, MUTATION, AUTOCAST, CONTROL, GRADIENT, STRUCTURE, HOOK, ERROR)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that replay does otherwise, in the words in which it is printed."""

    kind: str
    """One of KINDS."""
    unit: str
    """Module path of the region, or of the module in it; empty where no region is to blame."""
    where: str
    """The op, buffer, attribute, parameter or generator that it is about."""
    text: str
    """One sentence."""
    cure: str
    """What to do about it."""


@dataclass(frozen=True, kw_only=True)
class OpDifference:
    """The first op whose replayed output is not what the first pass made."""

    op: str
    """As dispatched below autograd, without namespace: `native_dropout`."""
    module: str
    """Innermost module that ran it; empty outside every module."""
    source: str
    """`my_model.py:12 forward`: the model's innermost line in the region; empty where all of it is torch's."""
    region: str
    """Module path of the region."""
    position: int
    """Which op of the region's pass it is, from 0, casts of what the region is given left out."""
    what: str
    """What differs: `values`, `dtype`, `shape`, or `op` where another op, or none, ran in its place."""
    first: str
    """What the first pass made: `float32[8, 64], mean 0.0123, norm 3.45`."""
    replayed: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    outcome: str
    """One of OUTCOMES."""
    placement: str
    """Its text, or what the audited wrapper is called."""
    findings: tuple[Finding, ...]
    """The cause first, what follows from it after; empty where nothing differs."""
    trials: int
    """Trials that were run; each starts from another state and seed."""
    differing: int
    """Trials that differed."""
    tolerance: float
    """Largest relative difference that was allowed; 0 where all had to be equal to the bit."""
    steps: int
    """Optimizer steps a trial; one forward without a backward follows them."""
    first_difference: OpDifference | None
    """None where every op replayed alike, or where no op could be watched."""
    batch_note: str = ""
    """Says so where the audit ran on another batch than the step's."""
    notes: tuple[str, ...] = ()
    """What was seen and is no fault by itself, such as another set of warnings, and what could not be compared."""

    @property
    def kind(self) -> str:
        """The kind of the cause; empty where nothing was found."""
        return self.findings[0].kind if self.findings else ""

    @property
    def may_stand_on_a_frontier(self) -> bool:
        return self.outcome in (VALID, WITHIN_TOLERANCE)

    def __str__(self) -> str:
        """As it is printed: `invalid (rng): …`, what the first op that differs made, each further finding."""
        told = self.outcome
        if self.outcome == FLAKY:
            told += f" ({self.differing} of {self.trials} trials)"
        if self.outcome == WITHIN_TOLERANCE:
            told += f" ({self.tolerance:.1e} relative)"
        lines = [f"{told} ({f.kind}): {f.text}; {f.cure}" for f in self.findings[:1]] or [told]
        if self.first_difference is not None:
            lines.append(f"  first pass: {self.first_difference.first}; replay: {self.first_difference.replayed}")
        lines += [f"  also ({f.kind}): {f.text}" for f in self.findings[1:]]
        lines += [f"  note: {note}" for note in filter(None, (self.batch_note, *self.notes))]
        return f"{self.placement}: " + "\n".join(lines)


def unsupported(placement: str, why: str, *, steps: int, batch_note: str = "") -> Verdict:
    """A verdict that could not be reached."""
    return Verdict(
        outcome=UNSUPPORTED,
        placement=placement,
        findings=(),
        trials=0,
        differing=0,
        tolerance=0.0,
        steps=steps,
        first_difference=None,
        batch_note=batch_note,
        notes=(why,),
    )
