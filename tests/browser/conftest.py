"""A real Chromium on a real MLflow server that holds published studies, over SQLite and over PostgreSQL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.page import Page, chromium
from tests.browser.published import Studies, publish_studies
from tests.track.services import mlflow_server, postgres_cluster


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def studies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    """Studies that were published through a server on a store of this kind; the server runs."""
    folder = tmp_path_factory.mktemp(f"mlflow-{request.param}")
    if request.param == "sqlite":
        with mlflow_server(f"sqlite:///{folder}/mlflow.db", folder) as url:
            yield publish_studies(url, folder)
        return
    with (
        postgres_cluster() as cluster,
        mlflow_server(cluster.create("mlflow"), folder, environment=cluster.environment) as url,
    ):
        yield publish_studies(url, folder)


@pytest.fixture
def page(browser: Page, studies: Studies) -> Iterator[Page]:
    """A page without anything remembered from the test before."""
    browser.begin(studies.url)
    yield browser
    shots = os.environ.get("BOUNDARY_BENCH_SCREENSHOTS")
    if shots:
        shutil.copytree(browser.shots, Path(shots), dirs_exist_ok=True)
