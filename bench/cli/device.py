"""What this machine has to run on, found without importing torch: the parent never loads an accelerator stack."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

DRIVER_TIMEOUT_S = 20


def device_kind(choice: str) -> str:
    """`auto` becomes `cuda` where torch can use a CUDA device, else `cpu`; any other choice stays as it is."""
    if choice != "auto":
        return choice
    return "cuda" if torch_has_cuda() and cuda_device_visible() else "cpu"


def cuda_device_visible(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> bool:
    """Whether a CUDA device is there and not hidden by CUDA_VISIBLE_DEVICES.

    Device files are looked at first: `/proc/driver/nvidia` shows the host's driver even in a container that was given
    no device. Where there are none (WSL), `nvidia-smi` decides.
    """
    if environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1", "NoDevFiles"):
        return False
    return any(devices.glob("nvidia[0-9]*")) or _driver_lists_device()


def torch_has_cuda() -> bool:
    """False for torch's CPU builds, which say so in their version (`2.13.0+cpu`)."""
    try:
        return not importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False


def usable_cores() -> int:
    """Cores that this process may run on, which a container or `taskset` makes fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def _driver_lists_device() -> bool:
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU" in listed.stdout
