"""The lines of `samples.jsonl`. Each is one frozen dataclass; `docs/records.md` describes the file.

Every record says which execution (index) and which process of it wrote it: an execution that was killed goes on in a
new process, and times are only ever paired within one round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AUDIT_KIND = AUDIT_STAGE = "audit"
VALID, WITHIN_TOLERANCE = "valid", "valid-within-tolerance"


@dataclass(frozen=True, kw_only=True)
class Record:
    execution: int
    process: str
    """Random id of the worker process."""
    unix_time_s: float
    """When the line was written."""


@dataclass(frozen=True, kw_only=True)
class ExecutionStarted(Record):
    placements: tuple[str, ...]
    """What this process sets out to measure, the reference included."""
    startup_s: float = 0.0
    """Seconds from the start of the process to this line: interpreter, imports, waiting for the device."""
    environment: Mapping[str, str | int | float | None] = field(default_factory=dict)
    """Threads, allocator settings, kernels as executed by this process."""


@dataclass(frozen=True, kw_only=True)
class Starting(Record):
    """Written before anything that may fail, so that a crash names its placement."""

    stage: str
    """`build`, `first-step`, `audit`, `memory`, `warmup` or `time`."""
    placement: str | None = None
    round: int | None = None


@dataclass(frozen=True, kw_only=True)
class FirstStep(Record):
    """The very first optimizer step of a process: builds optimizer state, fills caches; reported apart."""

    placement: str
    step_time_ms: float


@dataclass(frozen=True, kw_only=True)
class WarmedUp(Record):
    placement: str
    step_times_ms: tuple[float, ...]
    settled: bool
    """Whether step time and allocator had settled when warm-up ended; False when it ended at `warmup_steps_max`."""


@dataclass(frozen=True, kw_only=True)
class RegionEffect:
    """What one region of a placement did in the steps of a sample."""

    region: str
    first_passes: int
    replays: int
    """Passes inside backward."""
    kept_calls: int
    """Op calls whose outputs the policy kept; 0 without a policy."""


@dataclass(frozen=True, kw_only=True)
class MemorySample(Record):
    placement: str
    peak_allocated_bytes: int
    """High-water mark of one step: persistent state at its start plus everything allocated on top."""
    persistent_bytes: int
    """Allocated between steps: parameters, buffers, optimizer state, batches, gradients that outlive a step."""
    retained_bytes: int
    """Allocated by the last forward and still there when its backward begins: what autograd and replay hold."""
    peak_phase: str
    """`forward`, `backward`, `optimizer` or `zero_grad`."""
    peak_requested_bytes: int | None = None
    """CUDA: peak of bytes asked for, before the allocator rounds up."""
    peak_reserved_bytes: int | None = None
    """CUDA: peak of bytes the allocator took from the driver."""
    losses: tuple[float | None, ...]
    """Loss of each step of the pass, from the same weights, RNG state and batches for every placement; None where it is
    not finite."""
    optimizer_steps: int
    batch_digest: str
    """Hash of the batches the steps used."""
    step_flops: int
    """Floating-point operations counted in the first step of the pass."""
    replay_flops: int
    """Of them inside replays."""
    step_ops: int
    """Operators dispatched in that step."""
    replay_ops: int
    """Of them inside replays."""
    attention_ops: tuple[str, ...] = ()
    """Attention kernels that the first step's forward passes ran, in order of first use."""
    effects: tuple[RegionEffect, ...] = ()
    wall_s: float
    """Wall time of the measured steps."""


@dataclass(frozen=True, kw_only=True)
class TimeSample(Record):
    placement: str
    round: int
    position: int
    """Place in the shuffled order of its round."""
    step_times_ms: tuple[float, ...]
    wall_ms: float
    """One span around all timed steps, to hold against their sum."""
    optimizer_steps: int
    batch_digest: str
    effects: tuple[RegionEffect, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RoundDone(Record):
    round: int


@dataclass(frozen=True, kw_only=True)
class RoundDiscarded(Record):
    """A round whose times the hardware spoiled, such as by slowing down for heat; `process` is that of the round."""

    round: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class OutcomeRecord(Record):
    """A placement that is not scored, and why. Final unless it is retried on request."""

    placement: str
    outcome: str
    """One of `bench.spec.OUTCOMES`, never `ok`."""
    reason: str
    stage: str
    """Where in the worker it happened, as in Starting."""


@dataclass(frozen=True, kw_only=True)
class Stopped(Record):
    """An execution is done with these placements."""

    placements: tuple[str, ...]
    rounds: int
    reason: str
    """`tight`, `not getting tighter`, `rounds` or `time cap`."""
    half_widths: Mapping[str, float | None]
    """Placement → half-width reached by the interval of its paired time ratio in this execution; None when too few
    rounds give one."""
    cap_s: float | None = None
    """Time cap of this execution that was in force."""
    measuring_s: float
    """Wall seconds inside timed and memory steps, of `wall_s`."""
    wall_s: float
    """Wall seconds of the process from its start to here."""


@dataclass(frozen=True, kw_only=True)
class AuditRecord(Record):
    """Whether a placement's replay trains the same: `bench.audit.verdict.Verdict`, as it was recorded."""

    placement: str
    key: str
    """`bench.spec.audit_key`: under another one the verdict says nothing."""
    outcome: str
    """`valid` (to the bit), `valid-within-tolerance`, `invalid`, `flaky` or `unsupported`."""
    findings: tuple[Mapping[str, str], ...] = ()
    """The cause first; each has `kind`, `unit`, `where`, `text` and `cure`."""
    trials: int
    differing: int
    """Trials that differed."""
    tolerance: float
    """Largest relative difference that was allowed; 0 where all had to be equal to the bit."""
    steps: int
    """Optimizer steps a trial."""
    first_difference: Mapping[str, Any] | None = None
    """The first op whose replayed output differs: `op`, `module`, `source`, `region`, `position`, `what`, `first`,
    `replayed`."""
    batch_note: str = ""
    """Says so where the audit ran on another batch than the study's."""
    notes: tuple[str, ...] = ()
    reused_from: str = ""
    """The study that the verdict was found in; empty where it was found here."""

    @property
    def is_valid(self) -> bool:
        return self.outcome in (VALID, WITHIN_TOLERANCE)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding["kind"] for finding in self.findings))

    @property
    def reason(self) -> str:
        """In one line, why the placement is not valid; empty where it is."""
        if self.is_valid:
            return ""
        if not self.findings:
            return "; ".join(self.notes) or "it could not be audited"
        cause = self.findings[0]
        told = f"{cause['kind']}: {cause['text']}; {cause['cure']}"
        return told if self.differing == self.trials else f"in {self.differing} of {self.trials} trials, {told}"


RECORD_KINDS: dict[str, type[Record]] = {
    "execution": ExecutionStarted,
    "starting": Starting,
    "first-step": FirstStep,
    "warmed-up": WarmedUp,
    "memory": MemorySample,
    "time": TimeSample,
    "round": RoundDone,
    "round-discarded": RoundDiscarded,
    "outcome": OutcomeRecord,
    AUDIT_KIND: AuditRecord,
    "stopped": Stopped,
}
