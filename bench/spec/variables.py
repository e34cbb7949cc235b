"""Environment variables that change how a step runs, and so must be controls where they are set."""

from __future__ import annotations

from collections.abc import Mapping

from bench.spec.controls import DeviceSpec

CONTROLLED = (
    "CUBLAS_WORKSPACE_CONFIG",
    "GOMP_",
    "KMP_",
    "LD_PRELOAD",
    "MALLOC_",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)
"""Prefixes."""
FREE = ("OMP_NUM_THREADS",)
"""`device.threads` decides instead."""


def device_variables(device: DeviceSpec) -> dict[str, str]:
    """What the controls set, for the environment of a worker."""
    return {name: str(value) for name, value in (*device.allocator.items(), *device.openmp.items())}


def uncontrolled(device: DeviceSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Those of `environment` that would change a step and that the controls do not name."""
    named = device_variables(device)
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(CONTROLLED) and name not in named and name not in FREE
    }
