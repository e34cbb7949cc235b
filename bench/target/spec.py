"""What is known of a GPU model without having one: data-sheet figures and what PyTorch's choices depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.spec import SpecError, from_mapping

MIB = 2**20
RATES = ("fp32", "tf32", "fp16", "bf16")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A GPU that a step is forecast for."""

    name: str
    """As said on the command line: `h200`."""
    device_name: str
    """As `torch.cuda.get_device_name` would give it."""
    memory_bytes: int
    """`total_memory` of the device's properties, as PyTorch's out-of-memory errors tell it: what the driver hands out
    in all. `nvidia-smi` shows up to 2.1 % more, which the driver keeps; it differs a little between drivers."""
    compute_capability: tuple[int, ...]
    """(major, minor). Decides which kernels PyTorch chooses."""
    num_multiprocessors: int
    bandwidth_bytes_per_s: float
    """Peak of the device's memory."""
    peak_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """Peak rates by RATES, dense, with accumulation in fp32; one that the device has no units for is absent."""
    context_bytes: int
    """Of a CUDA context with PyTorch's kernels loaded, outside the caching allocator. Approximate: it depends on
    driver and version."""

    @property
    def cublas_workspace_bytes(self) -> int:
        """What PyTorch 2.13 lends cuBLAS for each handle and stream (`parseChosenWorkspaceSize` in
        aten/src/ATen/cuda/CublasHandlePool.cpp): `:4096:2:16:8`, and 32 MiB on Hopper and Blackwell."""
        if self.compute_capability[0] in (9, 10, 12):
            return 32 * MIB
        return 2 * 4096 * 1024 + 8 * 16 * 1024

    @property
    def allocatable_bytes(self) -> int:
        """What is left for the allocator beside the context; approximate, as the context is."""
        return self.memory_bytes - self.context_bytes


def target_of(options: Mapping[str, Any]) -> Target | None:
    """The target of a composed config; None where there is none.

    Raises:
        SpecError: names the option that is missing, unknown, of the wrong type or out of range.
    """
    chosen = options.get("target")
    return None if chosen is None else target_from(chosen)


def target_from(figures: Mapping[str, Any]) -> Target:
    """Raises SpecError as `target_of` does."""
    target = from_mapping(Target, figures, where="target")
    validate_target(target)
    return target


def validate_target(target: Target) -> None:
    """Raises SpecError, naming the option, where a figure cannot be."""
    where = f"target.{{}} of {target.name}: "
    for name in ("memory_bytes", "num_multiprocessors", "bandwidth_bytes_per_s"):
        value = getattr(target, name)
        if not value > 0:
            raise SpecError(f"{where.format(name)}{value} is not above 0")
    if not 0 <= target.context_bytes < target.memory_bytes:
        raise SpecError(
            f"{where.format('context_bytes')}{target.context_bytes} must lie between 0 and memory_bytes "
            f"({target.memory_bytes})"
        )
    capability = target.compute_capability
    if len(capability) != 2 or capability[0] < 5 or not 0 <= capability[1] <= 9:
        raise SpecError(
            f"{where.format('compute_capability')}{list(capability)} is not [major, minor] of a GPU that PyTorch knows"
        )
    unknown = sorted(set(target.peak_flops_per_s) - set(RATES))
    if unknown:
        raise SpecError(f"{where.format('peak_flops_per_s')}no rate {unknown[0]}; there are {', '.join(RATES)}")
    if "fp32" not in target.peak_flops_per_s:
        raise SpecError(f"{where.format('peak_flops_per_s')}fp32 is missing")
    for name, rate in target.peak_flops_per_s.items():
        if not rate > 0:
            raise SpecError(
                f"{where.format('peak_flops_per_s.' + name)}{rate} is not above 0; leave out what is absent"
            )
