"""OmegaConf resolvers that `conf/` uses: `${device_kind:auto}`, `${usable_cores:}`, `${per_kind:cuda,0.02,0.01}`."""

from __future__ import annotations

from omegaconf import OmegaConf

from bench.cli.device import device_kind, usable_cores


def register_resolvers() -> None:
    OmegaConf.register_new_resolver("device_kind", device_kind, replace=True)
    OmegaConf.register_new_resolver("usable_cores", usable_cores, replace=True)
    OmegaConf.register_new_resolver("per_kind", per_kind, replace=True)


def per_kind(kind: str, cpu: float, cuda: float) -> float:
    """The value for the kind of the device."""
    return cuda if kind == "cuda" else cpu
