"""Capacities with the shape of real ones: records as a search leaves them, and the answer worked out of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.capacity.axis import accumulation_at, asked_axis, bound_of, samples_at, start_size
from bench.capacity.key import capacity_key
from bench.capacity.store import CapacityRecords, CapacityWriter, capacity_path, write_answer, write_spec
from bench.capacity.summary import summarise
from bench.capacity.types import (
    ASKED,
    DOES_NOT_FIT,
    FITS,
    Answer,
    Audited,
    CapacitySpec,
    Probe,
    Record,
    TimedSample,
    TimingEnded,
)
from bench.placement import placement_id
from bench.records import PLAIN
from bench.report.capacity_files import write_capacity_files
from bench.spec import (
    GATE,
    Controls,
    DeviceSpec,
    Facts,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    PlacementEntry,
    ProtocolSpec,
    RecipeSpec,
    WorkloadSpec,
)
from tests.report.examples import GPT2_CHAINS

MIB = 2**20
LIMIT = 4096 * MIB
FIRST_TIME_S = 1_750_000_000.25
MLPS = "transformer.h.0..11.mlp:each"
BLOCKS = "transformer.h.0..10:each"
ALL = "transformer.h.0..11:each"
WRONG = "transformer.h.0..11:each@no-rng"
GENERATORS = {PLAIN: "none", MLPS: "submodules", BLOCKS: "all but the last blocks", ALL: "every block"}


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far a placement goes, and how fast."""

    largest: int | None
    next_size: int | None
    """Probed, and no fit; None at the bound."""
    rate: float = 0.0
    """Tokens a second at its largest size."""
    peak: int = 4000 * MIB
    next_peak: int | None = 4200 * MIB
    next_outcome: str = DOES_NOT_FIT
    next_reason: str = "its peak is over the limit"
    smaller: Mapping[int, float] = dataclasses.field(default_factory=dict)
    """Other sizes at which it was timed → tokens a second."""
    valid: bool = True


FOUR = {
    PLAIN: Reach(largest=4, next_size=5, rate=800.0, peak=3900 * MIB, next_peak=4300 * MIB),
    MLPS: Reach(largest=6, next_size=7, rate=840.0, peak=4000 * MIB),
    ALL: Reach(largest=16, next_size=17, rate=680.0, peak=4090 * MIB, smaller={8: 660.0}),
    BLOCKS: Reach(largest=16, next_size=17, rate=704.0, peak=4080 * MIB, smaller={8: 690.0}),
}
"""`none` takes 4; replayed MLPs 6, at more tokens a second than none; replayed blocks four times as much as none."""


def make_spec(placements: Sequence[str], *, axis: str = "micro-batch", **fields: Any) -> CapacitySpec:
    held = fields.pop("controls", None) or capacity_controls()
    asked = asked_axis(axis, held)
    keep = fields.get("keep", "micro-batch")
    limit, headroom = fields.pop("limit_bytes", LIMIT), fields.get("headroom", 0.0)
    key = capacity_key(
        held, asked, limit_bytes=limit, limit_source=ASKED, headroom=headroom, keep=keep, evaluation=False
    )
    return CapacitySpec(
        name=held.model.name,
        key=key,
        controls=held,
        axis=asked,
        start=start_size(asked, held),
        limit_bytes=limit,
        limit_source=ASKED,
        largest=bound_of(asked, held, keep, None),
        placements=tuple(
            PlacementEntry(text=text, id=placement_id(text), generators=(GENERATORS.get(text, "explicit"),))
            for text in placements
        ),
        chains=GPT2_CHAINS,
        **({"audit": GATE, "rounds": 5} | fields),
    )


def capacity_controls(**workload: Any) -> Controls:
    return Controls(
        model=ModelSpec(name="gpt2", target="models.gpt2", settings={"layers": 12, "width": 768, "heads": 12}),
        workload=WorkloadSpec(**({"micro_batch": 4, "shape": {"sequence_length": 256}} | workload)),
        optimizer=OptimizerSpec(),
        recipe=RecipeSpec(),
        precision="fp32",
        parallelism=ParallelismSpec(),
        device=DeviceSpec(kind="cpu", threads=2),
        protocol=ProtocolSpec(),
        facts=Facts(device_name="AMD EPYC 7763", versions={"torch": "2.13.0"}),
    )


def make_records(spec: CapacitySpec, reach: Mapping[str, Reach], rounds: int = 5) -> CapacityRecords:
    """Audits, then probes, then rounds on a machine whose speed differs from round to round by some percent."""
    now = FIRST_TIME_S
    entries: list[Record] = []

    def stamp() -> float:
        nonlocal now
        now += 1.0
        return now

    for text, of in reach.items():
        if text != PLAIN:
            entries.append(
                Audited(
                    unix_time_s=stamp(),
                    placement=text,
                    key="0123456789abcdef",
                    outcome="valid" if of.valid else "invalid",
                    is_valid=of.valid,
                    reason="" if of.valid else "gradients of transformer.wte differ",
                )
            )
    for text, of in reach.items():
        probed = [(of.largest, FITS, of.peak, ""), (of.next_size, of.next_outcome, of.next_peak, of.next_reason)]
        for size, outcome, peak, reason in probed:
            if size is not None:
                entries.append(_probe(spec, stamp(), text, size, outcome, peak, reason))
    points = [
        (text, size, rate)
        for text, of in reach.items()
        if of.largest is not None and of.rate
        for size, rate in {of.largest: of.rate, **of.smaller}.items()
    ]
    for number in range(rounds):
        for position, (text, size, rate) in enumerate(points):
            entries.append(_sample(spec, stamp(), text, size, rate, number, position))
    if rounds:
        entries.append(TimingEnded(unix_time_s=stamp(), rounds=rounds, reason="rounds"))
    return CapacityRecords(entries=tuple(entries))


def make_answer(reach: Mapping[str, Reach] | None = None, rounds: int = 5, **fields: Any) -> Answer:
    reach = FOUR if reach is None else reach
    spec = make_spec(tuple(reach), **fields)
    return summarise(spec, make_records(spec, reach, rounds))


def write_capacity(
    results: Path, reach: Mapping[str, Reach] | None = None, rounds: int = 5, **fields: Any
) -> tuple[Path, Answer]:
    """A capacity directory as a search leaves it, tables and plots included."""
    reach = FOUR if reach is None else reach
    spec = make_spec(tuple(reach), **fields)
    directory = capacity_path(results, spec)
    write_spec(directory, spec)
    writer = CapacityWriter(directory)
    for record in make_records(spec, reach, rounds).entries:
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        del values["unix_time_s"]
        writer.write(type(record), **values)
    answer = summarise(spec, writer.records)
    writer.close()
    write_answer(directory, answer)
    write_capacity_files(directory, answer)
    return directory, answer


def _probe(spec: CapacitySpec, at: float, text: str, size: int, outcome: str, peak: int | None, reason: str) -> Probe:
    return Probe(
        unix_time_s=at,
        placement=text,
        size=size,
        accumulation=accumulation_at(spec, size),
        outcome=outcome,
        stage="end",
        reason=reason,
        peak_allocated_bytes=peak,
        forecast_bytes=peak,
        optimizer_steps=2,
        num_samples=samples_at(spec, size),
        batch_digest="feed",
        wall_s=9.0,
    )


def _sample(
    spec: CapacitySpec, at: float, text: str, size: int, rate: float, number: int, position: int
) -> TimedSample:
    samples = samples_at(spec, size)
    length = size if spec.axis.name == "sequence-length" else spec.controls.workload.shape["sequence_length"]
    # All of a round are slower or faster alike; each but none by a share of its own besides.
    own = 0.0 if text == PLAIN else 0.002 * (-1) ** position
    noise = math.exp((0.01 + own) * (2 * number % 5 - 2))
    return TimedSample(
        unix_time_s=at,
        process="feed0123",
        placement=text,
        size=size,
        accumulation=accumulation_at(spec, size),
        round=number,
        position=position,
        step_times_ms=(1e3 * samples * length / rate * noise,),
        num_samples=samples,
        num_units=samples * length,
        optimizer_steps=1,
        batch_digest="feed",
    )
