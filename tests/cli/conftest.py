from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.cli.entry import config_folder
from bench.cli.resolvers import register_resolvers

Compose = Callable[..., dict[str, Any]]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for workers that build the toy families
    return tmp_path


@pytest.fixture
def composed() -> Iterator[Compose]:
    """Composes a primary config with overrides into a plain mapping."""
    register_resolvers()

    def of(overrides: Sequence[str] = (), name: str = "sweep") -> dict[str, Any]:
        options = OmegaConf.to_container(compose(name, list(overrides)), resolve=True, throw_on_missing=True)
        assert isinstance(options, dict)
        return {str(key): value for key, value in options.items()}

    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        yield of
