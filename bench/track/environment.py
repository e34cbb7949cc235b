"""What MLflow reads from the process: telemetry, HTTP limits, loggers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
UI_ONLY = NO_TELEMETRY | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""For a server that only shows runs: its job runner would start eight more Python processes."""

FIRST_CONTACT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""A server that is down is told within about ten seconds; MLflow's own limits (7 retries of 120 s) take minutes."""

WHILE_PUBLISHING = {
    # Else every run of a server prints two lines, and is fetched once more for them.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""A server that answered once may be slow; one that goes away is given up within a minute."""

CHATTY_LOGGERS = ("mlflow", "alembic", "urllib3.connectionpool")


def disable_telemetry() -> None:
    """To be called before the first import of mlflow, which reads these once."""
    os.environ.update(NO_TELEMETRY)


@contextmanager
def environment_defaults(defaults: Mapping[str, str]) -> Iterator[None]:
    """Sets those of `defaults` that the user has not set, and takes them back."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def quiet_loggers() -> Iterator[None]:
    """Keeps migrations, retries and tracebacks of errors that are raised anyway off the terminal."""
    loggers = [logging.getLogger(name) for name in CHATTY_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
