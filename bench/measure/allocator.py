"""How much an allocator holds, to see whether it still grows."""

from __future__ import annotations

import resource

import torch


def allocator_state(device: torch.device) -> tuple[int, ...]:
    """Numbers that stand still once the allocator has settled: on CUDA the bytes it took from the driver and its
    segments, on the CPU the most memory that the process ever had resident, in MiB."""
    if device.type == "cuda":
        stats = torch.cuda.memory_stats(device)
        return int(stats["reserved_bytes.all.current"]), int(stats["segment.all.current"])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,)
