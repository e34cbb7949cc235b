"""Study directories as a worker would leave them, by the hundred: for tests and figures of scale.

Every file comes from the product's own code: placements from the generators' grammar, records through `format_record`,
frontiers through `build_frontier`. Times are drawn, the same ones for the same seed.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.frontier import build_frontier
from bench.frontier.store import read_frontier, source_digest, write_frontier
from bench.placement import parse_placement
from bench.records import (
    ENVIRONMENT_FILE,
    SAMPLES_FILE,
    ExecutionStarted,
    MemorySample,
    Record,
    RoundDone,
    Stopped,
    TimeSample,
    format_record,
    read_records,
    read_study,
    study_path,
    write_json,
    write_study,
)
from bench.spec import ChainInfo, ModelSpec, PlacementEntry, StudySpec, WorkloadSpec, control_key, flat_controls
from tests.builders import MIB, make_controls

FIRST_TIME_S = 1_750_000_000.0
PERSISTENT_BYTES = 1500 * MIB
MOVABLE_BYTES = 1500 * MIB


def placement_texts(num_placements: int) -> list[str]:
    """`none`, then leading blocks one by one, as many as it takes."""
    texts = ["none", *(f"transformer.h.0..{last}:each" for last in range(1, num_placements))][:num_placements]
    return [parse_placement(text).text for text in texts]


def synthetic_study(*, seed: int, num_placements: int = 16, name: str = "gpt2") -> StudySpec:
    """A study with a control key of its own for each `seed`."""
    controls = make_controls(
        model=ModelSpec(name=name, target="models.gpt2", settings={"layers": num_placements}),
        workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 256}, seed=seed),
    )
    return StudySpec(
        name=name,
        key=control_key(controls),
        controls=controls,
        placements=tuple(
            PlacementEntry(
                text=text, id=parse_placement(text).id, generators=("none" if text == "none" else "leading",)
            )
            for text in placement_texts(num_placements)
        ),
        chains=(ChainInfo(name="blocks", units=tuple(f"transformer.h.{i}" for i in range(num_placements))),),
        recorded={"git_commit": "0" * 40},
    )


def synthetic_records(study: StudySpec, *, seed: int, num_rounds: int = 20) -> Iterator[Record]:
    """What one execution writes: peaks fall and times rise with the number of replayed blocks, with 2 % of noise."""
    noise = random.Random(seed)
    texts = [entry.text for entry in study.placements]
    origin: dict[str, Any] = {"execution": 0, "process": f"{noise.getrandbits(64):016x}"}
    clock_s = FIRST_TIME_S + seed

    def at() -> dict[str, Any]:
        nonlocal clock_s
        clock_s += 0.5
        return origin | {"unix_time_s": clock_s}

    yield ExecutionStarted(**at(), placements=tuple(texts), environment={"capacity_bytes": 2**34})
    for index, text in enumerate(texts):
        share = index / len(texts)
        yield MemorySample(
            **at(), placement=text, peak_allocated_bytes=PERSISTENT_BYTES + round(MOVABLE_BYTES * (1 - 0.6 * share)),
            persistent_bytes=PERSISTENT_BYTES, retained_bytes=round(MOVABLE_BYTES * (0.9 - 0.6 * share)),
            peak_phase="backward", losses=(10.8, 10.7), optimizer_steps=2, batch_digest="0123456789abcdef",
            step_flops=round(1e12 * (1 + share / 3)), replay_flops=round(1e12 * share / 3), step_ops=2000 + 50 * index,
            replay_ops=50 * index, attention_ops=("flash",), wall_s=4.0,
        )  # fmt: skip
    for number in range(num_rounds):
        order = noise.sample(range(len(texts)), len(texts))
        for position, index in enumerate(order):
            step_ms = 1000 * (1 + 0.3 * index / len(texts)) * math.exp(noise.gauss(0, 0.02))
            yield TimeSample(
                **at(), placement=texts[index], round=number, position=position, step_times_ms=(step_ms,),
                wall_ms=step_ms, optimizer_steps=1, batch_digest="0123456789abcdef",
            )  # fmt: skip
        yield RoundDone(**at(), round=number)
    yield Stopped(
        **at(), placements=tuple(texts), rounds=num_rounds, reason="rounds",
        half_widths=dict.fromkeys(texts, 0.01), measuring_s=clock_s - FIRST_TIME_S, wall_s=clock_s - FIRST_TIME_S + 5,
    )  # fmt: skip


def write_synthetic_study(results: Path, *, seed: int, num_placements: int = 16, num_rounds: int = 20) -> Path:
    """A whole study directory with its frontier, without plots."""
    study = synthetic_study(seed=seed, num_placements=num_placements)
    directory = study_path(results, study)
    write_study(directory, study)
    write_json(directory / ENVIRONMENT_FILE, {"device": {"name": "Toy CPU"}})
    lines = (format_record(record) + "\n" for record in synthetic_records(study, seed=seed, num_rounds=num_rounds))
    (directory / SAMPLES_FILE).write_text("".join(lines), encoding="utf-8")
    digest = source_digest(directory)
    write_frontier(directory, build_frontier(study, read_records(directory)), built_from=digest)
    return directory


def write_similar_studies(results: Path, template: Path, seeds: Iterable[int]) -> list[Path]:
    """As `template`, each under controls of its own. Thousands are there soon, since no frontier is computed again."""
    study, frontier = read_study(template), read_frontier(template)
    directories = []
    for seed in seeds:
        other = synthetic_study(seed=seed, num_placements=len(study.placements))
        directory = study_path(results, other)
        write_study(directory, other)
        for name in (SAMPLES_FILE, ENVIRONMENT_FILE):
            (directory / name).write_bytes((template / name).read_bytes())
        same = dataclasses.replace(
            frontier, study=directory.name, key=other.key, controls=dict(flat_controls(other.controls))
        )
        write_frontier(directory, same, built_from=source_digest(directory))
        directories.append(directory)
    return directories
