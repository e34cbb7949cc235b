"""Made-up studies with the shape of real ones."""

from __future__ import annotations

from bench.frontier.types import Frontier, Interval, MemoryReference, Trial
from bench.placement import placement_id
from bench.spec import (
    ChainInfo,
    Controls,
    DeviceSpec,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    PlacementEntry,
    ProtocolSpec,
    RecipeSpec,
    StudySpec,
    WorkloadSpec,
)

MIB = 2**20
PERSISTENT = 1424 * MIB
STEP_FLOPS = 10**12

GPT2_CHAINS = (ChainInfo(name="blocks", units=tuple(f"transformer.h.{i}" for i in range(12))),)
T5_CHAINS = (
    ChainInfo(
        name="encoder",
        units=tuple(f"encoder.block.{i}" for i in range(6)),
        kinds={"attention": ("layer.0.SelfAttention",), "mlp": ("layer.1.DenseReluDense",)},
    ),
    ChainInfo(
        name="decoder",
        units=tuple(f"decoder.block.{i}" for i in range(6)),
        kinds={"attention": ("layer.0.SelfAttention", "layer.1.EncDecAttention"), "mlp": ("layer.2.DenseReluDense",)},
    ),
)


def ok(placement: str, peak_mib: float, ratio: float, *generators: str, width: float = 0.02, **fields: object) -> Trial:
    return Trial(
        placement=placement,
        id=placement_id(placement),
        generators=generators or ("explicit",),
        outcome="ok",
        rounds=6,
        executions=1,
        step_time_ms=4930.0 * ratio,
        time_ratio=ratio,
        time_ratio_interval=Interval(low=ratio - width, high=ratio + width) if width else None,
        verdict=None if not width else "unclear" if ratio - width < 1.0 < ratio + width else "slower",
        peak_allocated_bytes=round(peak_mib * MIB),
        persistent_bytes=PERSISTENT,
        step_flops=round(STEP_FLOPS * ratio),
        replay_flops=round(STEP_FLOPS * (ratio - 1)),
        **fields,  # type: ignore[arg-type]
    )


def failed(placement: str, outcome: str, reason: str, *generators: str) -> Trial:
    return Trial(
        placement=placement,
        id=placement_id(placement),
        generators=generators or ("explicit",),
        outcome=outcome,
        reason=reason,
    )


def frontier_of(*trials: Trial, reference: str | None = "none", knee: str | None = None, **fields: object) -> Frontier:
    """The frontier by plain dominance."""
    scored = [t for t in trials if t.outcome == "ok" and t.peak_allocated_bytes and t.time_ratio]
    on_frontier = [
        t
        for t in scored
        if not any(
            (o.peak_allocated_bytes, o.time_ratio) != (t.peak_allocated_bytes, t.time_ratio)
            and (o.peak_allocated_bytes or 0) <= (t.peak_allocated_bytes or 0)
            and (o.time_ratio or 0) <= (t.time_ratio or 0)
            for o in scored
        )
    ]
    on_frontier.sort(key=lambda t: -(t.peak_allocated_bytes or 0))
    values: dict[str, object] = {
        "study": "gpt2-0123abcd",
        "key": "0123abcd" * 2,
        "model": "gpt2",
        "device": "AMD EPYC 7763",
        "reference": reference if scored else None,
        "trials": trials,
        "frontier": tuple(t.placement for t in on_frontier),
        "knee": knee,
        "hypervolume": None,
        "drift": None,
        "capacity_bytes": 15 * 2**30,
        "notes": (),
        "controls": {},
    }
    return Frontier(**(values | fields))  # type: ignore[arg-type]


def study_of(frontier: Frontier, chains: tuple[ChainInfo, ...] = GPT2_CHAINS) -> StudySpec:
    return StudySpec(
        name=frontier.model,
        key=frontier.key,
        controls=Controls(
            model=ModelSpec(name=frontier.model, target=f"models.{frontier.model}"),
            workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 256}),
            optimizer=OptimizerSpec(),
            recipe=RecipeSpec(),
            precision="fp32",
            parallelism=ParallelismSpec(),
            device=DeviceSpec(kind="cpu", threads=2),
            protocol=ProtocolSpec(),
        ),
        placements=tuple(PlacementEntry(text=t.placement, id=t.id, generators=t.generators) for t in frontier.trials),
        chains=chains,
    )


def gpt2_eight(**fields: object) -> Frontier:
    return frontier_of(
        ok("none", 3236, 1.0, "none", width=0, frontier_confidence=1.0),
        ok("transformer.h.0..11:each", 2390, 1.22, "every block", frontier_confidence=0.998),
        ok("transformer.h.0..11:every.2", 2744, 1.08, "every k-th block (2)", frontier_confidence=0.93),
        ok("transformer.h.0..5:each", 2810, 1.10, "leading blocks (6)", width=0.013, frontier_confidence=0.1),
        ok("transformer.h.0..10:each", 2418, 1.19, "all but the last blocks (1)", frontier_confidence=0.9),
        ok("transformer.h.0..3+transformer.h.4..7+transformer.h.8..11", 2560, 1.23, "spans (√n)", width=0.03,
           frontier_confidence=0.0),
        ok("transformer.h.0..11.mlp:each", 2516, 1.12, "submodules (mlp)", frontier_confidence=0.97),
        ok("transformer.h.0..11:each:keep.attention", 2402, 1.205, "policies (attention)", width=0.015,
           frontier_confidence=0.7),
        **({"knee": "transformer.h.0..11.mlp:each"} | fields),
    )  # fmt: skip


def gpt2_sixteen() -> Frontier:
    return frontier_of(
        *gpt2_eight().trials,
        ok("transformer.h.0..11:every.3", 2906, 1.06, "every k-th block (3)", frontier_confidence=0.8),
        ok("transformer.h.0..2:each", 3020, 1.055, "leading blocks (3)", frontier_confidence=0.8),
        ok("transformer.h.0..5+transformer.h.6..11", 2720, 1.24, "spans (2)", width=0.04, frontier_confidence=0.0),
        ok("transformer.h.0..5+transformer.h.0..11:each+transformer.h.6..11", 2360, 1.45, "nested spans (2)",
           frontier_confidence=1.0),
        ok("transformer.h.0..11.attn:each", 2890, 1.07, "submodules (attention)", frontier_confidence=0.5),
        failed("transformer.h.0..11:each:keep.matmul", "no-effect",
               "the policy kept 48 calls and retained bytes did not fall: 1812.3 MiB against 1812.3 MiB of none",
               "policies (matmul)"),
        failed("transformer.h.0..11:each:keep.matmul%2", "oom", "wanted 77.2 MiB at 3.9 GiB of a limit of 4.0 GiB",
               "policies (matmul%2)"),
        ok("transformer.h.0..11:each@no-rng", 2391, 1.215, "checkpoint options (no-rng)", frontier_confidence=0.4),
        knee="transformer.h.0..11.mlp:each",
        notes=("Stopped by the time cap of 1500 s after 6 of 10 rounds.",),
    )  # fmt: skip


def none_does_not_fit() -> Frontier:
    """One placement at 2400 MiB, against a forecast of 4000 MiB."""
    return frontier_of(
        ok("h.0..5:each", 2400, 1.0, width=0),
        failed("none", "oom", "2 GiB"),
        reference="h.0..5:each",
        plain_forecast=MemoryReference(peak_allocated_bytes=4000 * MIB, persistent_bytes=PERSISTENT),
    )


def t5() -> Frontier:
    def both(form: str) -> str:
        return f"decoder.block.0..5{form}+encoder.block.0..5{form}"

    return frontier_of(
        ok("none", 2210, 1.0, "none", width=0),
        ok(both(":each"), 1480, 1.27, "every block"),
        ok(both(":every.2"), 1830, 1.12, "every k-th block (2)"),
        ok("decoder.block.0..2+decoder.block.3..5+encoder.block.0..2+encoder.block.3..5", 1455, 1.31, "spans (2)"),
        ok(both(":each:keep.matmul"), 1620, 1.19, "policies (matmul)"),
        ok("decoder.block.0..5.layer.2.DenseReluDense:each+encoder.block.0..5.layer.1.DenseReluDense:each", 1990, 1.05,
           "submodules (mlp)"),
        ok("encoder.block.0..5:each", 1700, 1.16, "explicit"),
        ok("decoder.block.0..2.layer.2.DenseReluDense:each", 2100, 1.01, "explicit"),
        failed("decoder.block.0..5+encoder.block.0..5", "unsupported",
               "unit 3 takes a tensor that is neither an input of the span nor the output of a member",
               "spans (1)"),
        model="t5-small",
        study="t5-small-0123abcd",
        knee=both(":each:keep.matmul"),
    )  # fmt: skip


def sixty() -> Frontier:
    """48 units, many placements, a dozen failures, and one measured placement that is not valid."""
    trials = [ok("none", 41_000, 1.0, "none", width=0)]
    for first in range(1, 47):
        saving = 1 - 0.6 * (first / 47) ** 0.9
        ratio = 1 + 0.3 * (first / 47) ** 1.4 + 0.012 * ((first * 7) % 5)
        trials.append(ok(f"transformer.h.0..{first}:each", 41_000 * saving, ratio, f"leading blocks ({first + 1})"))
    trials += [
        failed(f"transformer.h.0..{n}+transformer.h.{n + 1}..47", "oom", "out of memory", "spans (2)")
        for n in range(12)
    ]
    invalid = ok("transformer.h.0..47.attn:each@no-rng", 26_000, 1.05, "submodules (attention)").__dict__
    trials.append(Trial(**(invalid | {"outcome": "invalid", "reason": "gradients differ from step 1 on: dropout"})))
    return frontier_of(*trials, model="gpt2-xl", capacity_bytes=48 * 2**30, knee="transformer.h.0..23:each")


GPT2_XL_CHAINS = (ChainInfo(name="blocks", units=tuple(f"transformer.h.{i}" for i in range(48))),)
