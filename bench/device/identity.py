"""A name for the physical device, the same in every process of the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.device.gpu import NvmlUnavailableError, find_gpu, open_nvml

BOOT_ID = Path("proc/sys/kernel/random/boot_id")


def device_identity(
    kind: str,
    index: int = 0,
    name: str | None = None,
    environment: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> str:
    """`cuda-<PCI address>`, or `cuda-visible-<entry>` where NVML cannot tell; `cpu-<boot>`, one a machine.

    Args:
        kind: `cpu` or `cuda`.
        index: CUDA ordinal.
        name: model of the GPU, where it is known; see `find_gpu`.
    """
    if kind != "cuda":
        return f"cpu-{_boot(root)}"
    try:
        nvml = open_nvml()
        try:
            return f"cuda-{find_gpu(nvml, index, name, environment).pci_bus_id}"
        finally:
            nvml.nvmlShutdown()
    except NvmlUnavailableError:
        entries = [entry.strip() for entry in environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        return f"cuda-visible-{entries[index] if index < len(entries) and entries[index] else index}"


def _boot(root: Path) -> str:
    try:
        return (root / BOOT_ID).read_text().strip()[:8] or "machine"
    except OSError:
        return "machine"
