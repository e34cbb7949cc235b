"""What a worker's process runs on, for the record."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import re
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import torch

from bench.measure.gpu_facts import cuda_facts
from bench.measure.machine import Value, cpu_model, machine_facts, memory_limit_bytes
from bench.spec import SpecError

VARIABLES = ("OMP_", "GOMP_", "MKL_", "KMP_", "MALLOC_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "TORCH_")
"""Prefixes of environment variables that change how a step runs; no variable but these and the next is recorded."""
MORE_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONOPTIMIZE", "LD_PRELOAD")
PACKAGES = ("torch", "transformers", "diffusers", "peft", "numpy", "triton", "nvidia-ml-py")
DIGEST_LENGTH = 16

ROOT = Path("/")


def cpu_name(root: Path = ROOT) -> str:
    return cpu_model(root) or platform.processor() or platform.machine()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def capacity_bytes(device: torch.device, root: Path = ROOT) -> int | None:
    """Memory of the device: the GPU's, or what the machine and the cgroups around this process allow."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit_bytes(root)
    return machine if limit is None else min(machine, limit)


def library_versions(libraries: Sequence[str]) -> dict[str, str]:
    """Raises SpecError for a library that is no installed distribution."""
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda:
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    for library in libraries:
        try:
            versions.setdefault(library, metadata.version(library))
        except metadata.PackageNotFoundError:
            raise SpecError(f"LIBRARY: no distribution {library!r} is installed; name it as pip does") from None
    return versions


def environment_record(
    device: torch.device, root: Path = ROOT, variables: Mapping[str, str] = os.environ
) -> dict[str, Value]:
    """Flat facts about machine, libraries and settings of this process, as they are when it is called; no host name,
    user or path. What cannot be read is not there. `docs/records.md` lists them.

    Args:
        device: that is measured on.
        root: where `proc` and `sys` are.
        variables: the environment, of which the allowed ones are recorded.
    """
    cores = sorted(os.sched_getaffinity(0))
    record: dict[str, Value] = {
        "device": device_name(device),
        "capacity_bytes": capacity_bytes(device, root),
        "cpu": cpu_name(root),
        "cpu_count": os.cpu_count(),
        "cpu_affinity": len(cores),
        **machine_facts(root, cores),
        "kernel": platform.release(),
        "libc": "-".join(platform.libc_ver()),
        **_python_facts(),
        **_torch_facts(),
    }
    for package in PACKAGES:
        try:
            record[f"version.{package}"] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if device.type == "cuda":
        record |= cuda_facts(device)
    return record | _variables(variables)


def _python_facts() -> dict[str, Value]:
    timer = time.get_clock_info("perf_counter")
    flags = " ".join(str(sysconfig.get_config_var(name) or "") for name in ("CONFIG_ARGS", "CFLAGS", "LDFLAGS"))
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "python_compiler": " ".join(platform.python_compiler().split()),
        "python_build_digest": _digest(flags),
        "python_optimize": sys.flags.optimize,
        "timer": timer.implementation,
        "timer_resolution_s": timer.resolution,
        "gc_enabled": str(gc.isenabled()),
        "gc_thresholds": ",".join(map(str, gc.get_threshold())),
    }


def _torch_facts() -> dict[str, Value]:
    parallel = torch.__config__.parallel_info()
    backend = re.search(r"ATen parallel backend: (.+)", parallel)
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "parallel_backend": backend.group(1).strip() if backend else None,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": str(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled),
        "mkl": str(torch.backends.mkl.is_available()),
        "torch_build_digest": _digest(torch.__config__.show()),
        "torch_commit": torch.version.git_version,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "flush_denormal": str(_flushes_denormals()),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
    }


def _flushes_denormals() -> bool:
    """torch has a setter alone, so half of the smallest normal number is asked."""
    smallest = torch.tensor([torch.finfo(torch.float32).tiny])
    return float(smallest / 2) == 0.0


def _variables(variables: Mapping[str, str]) -> dict[str, Value]:
    """Of the allowed ones; of one that holds a path, that it is set is recorded and not to what."""
    chosen = {name: value for name, value in variables.items() if name.startswith(VARIABLES) or name in MORE_VARIABLES}
    return {f"env.{name}": "(a path)" if "/" in value else value for name, value in sorted(chosen.items())}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
