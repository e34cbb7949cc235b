"""OmegaConf resolvers that `conf/` uses: `${device_kind:auto}` and `${usable_cores:}`."""

from __future__ import annotations

from omegaconf import OmegaConf

from bench.cli.device import device_kind, usable_cores


def register_resolvers() -> None:
    OmegaConf.register_new_resolver("device_kind", device_kind, replace=True)
    OmegaConf.register_new_resolver("usable_cores", usable_cores, replace=True)
