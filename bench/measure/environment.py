"""What a worker's process runs on, for the record."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import torch

Value = str | int | float | None
VARIABLES = ("OMP_", "MKL_", "KMP_", "MALLOC_", "PYTORCH_", "CUDA_", "CUBLAS_", "NCCL_", "TORCH_", "NVIDIA_TF32")
"""Prefixes of environment variables that change how a step runs; no other variable is recorded."""
PACKAGES = ("torch", "transformers", "numpy", "triton")


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def capacity_bytes(device: torch.device) -> int | None:
    """Memory of the device: the GPU's, or what the machine and its cgroup allow."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            bounds.append(int(Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return min(bounds)


def library_versions(library: str) -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda:
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    if library != "torch":
        versions[library] = metadata.version(library)
    return versions


def environment_record(device: torch.device) -> dict[str, Value]:
    """Flat facts about machine, libraries and settings of this process; no host name, user or path."""
    record: dict[str, Value] = {
        "device": device_name(device),
        "capacity_bytes": capacity_bytes(device),
        "cpu": cpu_name(),
        "cpu_count": os.cpu_count(),
        "cpu_affinity": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": "-".join(platform.libc_ver()),
        "python": sys.version.split()[0],
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }
    for package in PACKAGES:
        try:
            record[f"version.{package}"] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if device.type == "cuda":
        record |= {
            "version.cuda": torch.version.cuda,
            "version.cudnn": torch.backends.cudnn.version(),
            "allow_tf32": str(torch.backends.cuda.matmul.allow_tf32),
        }
    record |= {f"env.{name}": value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}
    return record
