"""The physical device that a study runs on: which one it is, and the lock on it. Needs neither torch nor a GPU."""

from bench.device.gpu import (
    Gpu as Gpu,
    NvmlUnavailableError as NvmlUnavailableError,
    find_gpu as find_gpu,
    gpu_at as gpu_at,
    open_nvml as open_nvml,
)
from bench.device.identity import device_identity as device_identity
from bench.device.lock import (
    DeviceBusyError as DeviceBusyError,
    DeviceLock as DeviceLock,
    Holder as Holder,
    acquire_device as acquire_device,
    holder_text as holder_text,
)
