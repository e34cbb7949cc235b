"""A bound on the memory that a worker's step may take, so that 'does not fit' is a real allocation failure."""

from __future__ import annotations

import resource
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint


def limit_memory(limit_bytes: int, device: torch.device) -> None:
    """Bounds the caching allocator on CUDA; on the CPU bounds the process's data segment to what it takes now (the
    libraries) plus `limit_bytes`. Call it before the model is built.

    Raises:
        ValueError: the GPU has less memory than `limit_bytes`.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        if limit_bytes > total:
            raise ValueError(f"device.memory_limit_bytes: {limit_bytes} is more than the device's {total}")
        torch.cuda.set_per_process_memory_fraction(limit_bytes / total, device)
        return
    _load_what_a_step_loads()
    bound = _data_segment_bytes() + limit_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


def raise_memory_limit(extra_bytes: int, device: torch.device) -> None:
    """Makes room for copies that the harness keeps in host memory: they are not the step's."""
    if device.type == "cpu":
        bound, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (bound + extra_bytes, hard))


def _load_what_a_step_loads() -> None:
    """Much of torch is loaded by the first step that needs it; that is the libraries' memory and not the step's."""
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(layer.parameters())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        checkpoint(layer, torch.ones(1, 8), use_reentrant=False).sum().backward()
        optimizer.step()


def _data_segment_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData line")
