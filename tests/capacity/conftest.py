from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.entry import config_folder
from bench.cli.resolvers import register_resolvers


@pytest.fixture
def composed() -> Iterator[Callable[..., dict[str, Any]]]:
    """Composes the verb's config with overrides into a plain mapping."""
    register_resolvers()

    def of(overrides: Sequence[str] = ()) -> dict[str, Any]:
        options = OmegaConf.to_container(compose("capacity", list(overrides)), resolve=True, throw_on_missing=True)
        assert isinstance(options, dict)
        return {str(key): value for key, value in options.items()}

    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        yield of
