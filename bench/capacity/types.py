"""What the freed memory buys: what is asked, what is recorded while it is found out, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.spec import AUTO, GATE, ChainInfo, Controls, PlacementEntry

CAPACITY_SCHEMA_VERSION = 1

MICRO_BATCH, GLOBAL_BATCH = "micro-batch", "global-batch"
KEEPS = (MICRO_BATCH, GLOBAL_BATCH)
ASKED, DEVICE = "asked", "device"

BATCH, SHAPE, MODEL = "batch", "shape", "model"
"""What an axis changes: how many samples a micro-batch has, how large one is, or the model itself."""

FITS, DOES_NOT_FIT, DATA_ENDS, NO_STEP, NOT_TRIED = "fits", "does-not-fit", "data-ends", "no-step", "not-tried"
PROBE_OUTCOMES = (
    FITS,
    DOES_NOT_FIT,
    DATA_ENDS,
    NO_STEP,
    NOT_TRIED,
    *("error", "timeout", "hung", "crashed", "leaking", "no-effect", "unsupported"),
)
"""`fits` and `does-not-fit` are about memory, and no other is. `data-ends`: there is no batch of that size. `no-step`:
it ran and did not train. `not-tried`: it is expected to take more than the machine has free. The others are those of a
study."""

STAGES = ("build", "batch", "forward", "backward", "optimizer", "evaluation", "end")
"""Of a probe; where it ended."""

SETTLED, AT_BOUND, NONE_FITS, FAILED, UNFINISHED = "settled", "bound", "none-fits", "error", "unfinished"
NOT_VALID, NO_PROOF = "invalid", "not-tried"
UNAUDITED = "unaudited"
"""Of an audit: the plain step fits with no batch, so that nothing could be held against the placement."""
ENDS = (SETTLED, DATA_ENDS, AT_BOUND, NO_PROOF, NONE_FITS, FAILED, NOT_VALID, UNFINISHED)
"""How the search for a placement's largest size ended. `settled`: it fits and the next size does not. `data-ends`:
there is no batch of the next size. `bound`: there is no next size in the search. `not-tried`: the next size is expected
to need more than the machine has. `none-fits`: no size fits. `error`: something failed that is not about memory.
`invalid`: its replay does not train the same, so it was not searched. `unfinished`: killed, or out of time."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What grows until memory ends."""

    name: str
    """`micro-batch`, `sequence-length`, `image-size`, `layers`, `width`, or any other whole number of the model's."""
    path: str
    """The option that it changes: `workload.micro_batch`, `workload.shape.image_size`, `model.settings.layers`."""
    multiple: int
    """Sizes are multiples of it."""
    kind: str
    """One of BATCH, SHAPE, MODEL."""
    also: tuple[str, ...] = ()
    """Options that have the same value and follow it (`workload.shape.target_length`)."""


@dataclass(frozen=True, kw_only=True)
class CapacitySpec:
    name: str
    """Of the model; the directory is `<name>-capacity-<short key>`."""
    key: str
    """Hash of the controls without the searched option (and without the accumulation, where it follows), with axis,
    limit and what else decides the answer."""
    controls: Controls
    """As asked, facts included; the size in them is where the search starts."""
    axis: Axis
    start: int
    """The size in the controls as asked."""
    limit_bytes: int
    """Total peak allocated bytes that a step may reach, before the headroom is taken off."""
    limit_source: str
    """`asked`, or `device`: what it has."""
    headroom: float = 0.0
    """Share of the limit that must stay free."""
    keep: str = MICRO_BATCH
    """`micro-batch`: the size changes what the optimizer sees. `global-batch`: accumulation changes with the size, so
    that micro-batch × accumulation stays as asked."""
    largest: int
    """Bound of the search."""
    evaluation: bool = False
    """Whether a forward without gradients, as an evaluation makes, runs between the two steps of a probe."""
    placements: tuple[PlacementEntry, ...]
    """`none` is always among them."""
    chains: tuple[ChainInfo, ...] = ()
    placement_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the generators, as in `conf/placements`: where the axis changes the model, what a generator yields is
    made anew from the model of each size."""
    multiples: tuple[int, ...] = (2, 4)
    """Placements are also timed at these times the largest size of `none`."""
    rounds: int = 5
    """Shuffled rounds of timed samples."""
    time_cap_s: float | None = None
    """Wall seconds of timing; None for no cap."""
    probe_timeout_s: float = 600.0
    """A probe, build or sample that is silent for longer is ended."""
    audit: str = GATE
    """`gate`: each placement is audited once, at the start size; `off`."""
    restore: str = AUTO
    """`auto`: the twin with @restore takes the place of a placement invalid because state moves twice; `off`."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    """Recorded beside: git commit, constraints hash."""
    schema_version: int = CAPACITY_SCHEMA_VERSION

    @property
    def usable_bytes(self) -> int:
        """The limit without the headroom: what a peak must not exceed."""
        return int(self.limit_bytes * (1 - self.headroom))


@dataclass(frozen=True, kw_only=True)
class Starting:
    """Written before work begins, so that a kill names what was at work. Without a later record of the same, it counts
    for nothing and is done again."""

    unix_time_s: float
    work: str
    """`probe`, `audit`, `forecast`, `plan` or `time`."""
    placement: str | None = None
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A forecast: nothing was trained."""

    unix_time_s: float
    placement: str
    size: int
    peak_allocated_bytes: int | None
    """None where there is none."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Two optimizer steps at one size in a process of its own."""

    unix_time_s: float
    placement: str
    size: int
    accumulation: int
    """Micro-batches of one optimizer step."""
    outcome: str
    """One of PROBE_OUTCOMES."""
    stage: str
    """One of STAGES: `end` where it ran through, else where it ended."""
    reason: str = ""
    peak_allocated_bytes: int | None = None
    """Of the second step, or of the evaluation where that is higher. None where it did not run through."""
    peak_reserved_bytes: int | None = None
    """Of the caching allocator; None on the CPU."""
    peak_phase: str | None = None
    """Where in the step the peak was."""
    forecast_bytes: int | None = None
    """What was forecast for this very size; None where nothing was."""
    optimizer_steps: int | None = None
    """Taken; 2 in a probe that fits."""
    num_samples: int | None = None
    """Samples counted in the micro-batches of one step."""
    batch_digest: str | None = None
    applied: str | None = None
    """The placement as it was put on the model, where the axis changes the units that it names; else None."""
    wall_s: float | None = None
    """Of the process, its start included."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """The verdict on a placement, at the start size."""

    unix_time_s: float
    placement: str
    key: str
    """`bench.spec.audit_key` of the controls as asked and the placement."""
    outcome: str
    """`valid` (also with ignored differences), `invalid`, `flaky`, `unsupported` …, as the audit words it; or
    `unaudited`."""
    is_valid: bool
    reason: str = ""
    twin: str | None = None
    """The placement with @restore that takes its place, where there is a valid one."""
    reused_from: str | None = None
    """The study that it was found in."""

    @property
    def lets_it_be_searched(self) -> bool:
        """Whether the placement trains as the plain step does, or that step fits with no batch to be held against."""
        return self.is_valid or self.outcome == UNAUDITED


@dataclass(frozen=True, kw_only=True)
class TimedSample:
    """One placement at one size in one round. Time comes from other steps than memory."""

    unix_time_s: float
    process: str
    """Of the worker that took it; a process of its own where the axis changes the model."""
    placement: str
    size: int
    accumulation: int
    round: int
    position: int
    """In the round's shuffled order."""
    step_times_ms: tuple[float, ...]
    num_samples: int
    """That the optimizer sees in one step."""
    num_units: int
    """Tokens or images in one step, counted in the batch."""
    optimizer_steps: int
    batch_digest: str


@dataclass(frozen=True, kw_only=True)
class SampleFailed:
    """A placement that could not be timed at a size at which it had fitted; it is not tried again."""

    unix_time_s: float
    placement: str
    size: int
    outcome: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class TimingEnded:
    """Timing stopped here; the same search goes on where rounds are missing."""

    unix_time_s: float
    rounds: int
    reason: str
    """`rounds`, `time cap`, or `worker`: it ended before it had timed anything, again and again."""


Record = Starting | Expected | Probe | Audited | TimedSample | SampleFailed | TimingEnded


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Of one placement at one size."""

    samples_per_step: int
    units_per_step: int
    """Tokens or images; `Answer.unit` says which."""
    rounds: int
    """Whole samples that it rests on."""
    step_time_ms: float
    """Median over rounds."""
    samples_per_s: float
    units_per_s: float
    units_per_s_interval: tuple[float, float] | None
    """At 95 %, of the machine as it was; None with fewer than three rounds."""
    relative: float | None
    """Units a second over those of `none` at its own largest size, paired by round; None where that was not timed."""
    relative_interval: tuple[float, float] | None
    verdict: str
    """`faster`, `slower`, `same` or `unclear`: its time for one unit against that of `none`."""
    verdict_reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What one placement reaches."""

    placement: str
    generators: tuple[str, ...]
    ended: str
    """One of ENDS."""
    reason: str
    """Why it ended so, in a sentence; what it failed with, where it failed."""
    largest: int | None
    """The largest size that was run and fits; None where there is none."""
    times_none: float | None
    """`largest` over that of `none`; None where either has none."""
    accumulation: int | None
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    forecast_bytes: int | None
    margin_bytes: int | None
    """From the peak up to the limit; the headroom is part of it."""
    next_size: int | None
    """The smallest size above `largest` that was tried, or could have been; None at the bound."""
    next_outcome: str | None
    next_peak_bytes: int | None
    next_reason: str
    holes: tuple[int, ...]
    """Sizes below `largest` that did not fit although it does."""
    num_probes: int
    throughput: Throughput | None
    """At `largest`."""


@dataclass(frozen=True, kw_only=True)
class AtSize:
    placement: str
    size: int
    peak_allocated_bytes: int | None
    """Measured where it was proven, else forecast; None where neither."""
    is_proven: bool
    """Whether a probe ran at this very size; the best one always was. The others are timed there and fit at a larger
    size."""
    throughput: Throughput


@dataclass(frozen=True, kw_only=True)
class AtMultiple:
    """All placements that reach `multiple` times the largest size of `none`, timed at exactly that size."""

    multiple: int
    size: int | None
    """None where `none` fits at no size."""
    rows: tuple[AtSize, ...]
    """Those with most throughput first."""
    best: str | None
    """Placement with most throughput; None where none was timed."""
    reason: str
    """Why there is none, and how far it goes; empty where there is one."""


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """No other timed point has both a size and a throughput at least as high, and one of them higher."""

    placement: str
    size: int
    units_per_s: float
    relative: float | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    spec: CapacitySpec
    unit: str
    """What throughput counts: `tokens`, `images` or `samples`."""
    rows: tuple[Capacity, ...]
    """One a placement, in the order of the spec."""
    frontier: tuple[FrontierPoint, ...]
    """Throughput against size, smallest size first."""
    at_multiples: tuple[AtMultiple, ...]
    findings: tuple[str, ...]
    """Sentences for the reader."""
    notes: tuple[str, ...]
    """What the numbers are not, and what was declared."""
    is_complete: bool
    """Whether every placement has its answer (that none fits is one), and was timed where it has a size."""
    schema_version: int = CAPACITY_SCHEMA_VERSION
