"""Targets from conf/target, as the command line composes them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.resolvers import register_resolvers
from bench.target.spec import Target, target_of

CONF = Path(__file__).parents[2] / "conf"
NAMES = sorted(path.stem for path in (CONF / "target").glob("*.yaml"))


@functools.cache
def composed(*overrides: str) -> dict[str, Any]:
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base=None):
        options = OmegaConf.to_container(compose("sweep", list(overrides)), resolve=True)
    assert isinstance(options, dict)
    return {str(key): value for key, value in options.items()}


def target(name: str) -> Target:
    found = target_of(composed("model=gpt2", f"+target={name}"))
    assert found is not None
    return found
