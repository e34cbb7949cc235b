"""Profiles of made-up steps, small enough to check by hand."""

from __future__ import annotations

from bench.plan.profile import ChainProfile, StepProfile, UnitProfile


def unit_profile(name: str, chain: str, **changes: object) -> UnitProfile:
    facts: dict[str, object] = {
        "forward_ms": 2.0,
        "backward_ms": 4.0,
        "forward_flops": 200,
        "input_bytes": 100,
        "output_bytes": 100,
        "saved_bytes": 1000,
        "forward_extra_bytes": 0,
        "backward_extra_bytes": 0,
    }
    return UnitProfile(unit=name, chain=chain, **{**facts, **changes})  # type: ignore[arg-type]


def step_of(*chains: ChainProfile, head_bytes: int = 0, head_ms: float = 1.0) -> StepProfile:
    units = [unit for chain in chains for unit in chain.units]
    saved = units[0].input_bytes + sum(unit.saved_bytes for unit in units)
    return StepProfile(
        chains=chains,
        persistent_bytes=5000,
        peak_bytes=5000 + saved + head_bytes,
        step_ms=head_ms + sum(unit.forward_ms + unit.backward_ms for unit in units),
    )


def chain_profile(*, count: int, head_bytes: int = 0, head_ms: float = 1.0, prefix: str = "h") -> StepProfile:
    units = tuple(unit_profile(f"{prefix}.{index}", prefix) for index in range(count))
    return step_of(ChainProfile(name=prefix, units=units), head_bytes=head_bytes, head_ms=head_ms)


def two_chain_profile() -> StepProfile:
    encoder = ChainProfile(name="enc", units=tuple(unit_profile(f"enc.{index}", "enc") for index in range(4)))
    decoder = ChainProfile(
        name="dec", units=tuple(unit_profile(f"dec.{index}", "dec", saved_bytes=1500) for index in range(4))
    )
    return step_of(encoder, decoder)
