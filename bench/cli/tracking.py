"""The store that a verb publishes to: the Hydra group `tracker`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.cli.paths import verbs
from bench.spec import SpecError, from_mapping
from bench.track import TrackError, default_tracking_uri
from bench.track.secrets import without_password
from bench.track.uri import store_scheme

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """The Hydra group `tracker`."""

    name: str
    """`mlflow` or `none`."""
    uri: str | None = None
    """Tracking store; None takes MLFLOW_TRACKING_URI, else `mlflow.db` in the results folder."""


def check_tracker(results: Path, options: Mapping[str, Any]) -> None:
    """Raises SpecError, before anything is measured, for a tracker that does not exist."""
    if _tracker(options).name != "none":
        try:
            store_scheme(store_uri(results, options))
        except TrackError as error:
            raise SpecError(f"tracker.uri: {error}") from None


def store_uri(results: Path, options: Mapping[str, Any]) -> str:
    """Also where nothing is to be published there: what was published before is read from it."""
    return _tracker(options).uri or default_tracking_uri(results)


def store_to_open(results: Path, options: Mapping[str, Any]) -> str:
    """Raises SpecError where nothing is published."""
    if _tracker(options).name == "none":
        raise SpecError("tracker=none has no MLflow store to open; use tracker=mlflow")
    return store_uri(results, options)


def to_store(results: Path, options: Mapping[str, Any], publish: Callable[[str], P]) -> tuple[P | None, bool]:
    """What `publish` returns for the store's URI, and whether the store has what it was to have.

    A store that is down costs nothing that was measured, so it is told and not raised.
    """
    if _tracker(options).name == "none":
        return None, True
    try:
        return publish(store_uri(results, options)), True
    except TrackError as error:
        print(f"boundary-bench: not published: {error}", file=sys.stderr)
        return None, False


def open_ui_line(results: Path, options: Mapping[str, Any]) -> str:
    """The `ui` verb over the store that was published to, with what differs from its defaults."""
    uri = _tracker(options).uri
    default = results == (Path.cwd() / "results").resolve()
    words = ["" if default else f" results={shlex.quote(str(results))}"]
    if uri is not None:
        # A password is not printed; the environment holds it for the next command as well.
        is_secret = without_password(uri) != uri
        words.append(" tracker.uri=" + ('"$MLFLOW_TRACKING_URI"' if is_secret else shlex.quote(uri)))
    return f"{verbs()} ui{''.join(words)}"


def _tracker(options: Mapping[str, Any]) -> Tracker:
    tracker = from_mapping(Tracker, options, where="tracker")
    if tracker.name not in ("mlflow", "none"):
        raise SpecError(f"tracker.name: {tracker.name!r} is not one of mlflow, none")
    return tracker
