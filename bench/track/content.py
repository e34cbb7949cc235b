"""What one MLflow run is to hold, within MLflow's limits and without losing a character."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.track.times import Span

MAX_NAME = 250
MAX_PARAM_KEY = 250
MAX_PARAM_VALUE = 6000
MAX_TAG_VALUE = 8000
UNSTORABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class RunContent:
    name: str
    span: Span
    status: str
    """`FINISHED` or `FAILED`."""
    identity: Mapping[str, str]
    """Tags that the run is found again by; they never change."""
    params: Mapping[str, str]
    """What cannot change between two publishings: MLflow's params are immutable."""
    metrics: Mapping[str, float]
    """What was measured; what was not is absent."""
    tags: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Artifact path → text."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Artifact path → file of the study directory."""


def content_digest(content: RunContent) -> str:
    """64 hex digits over everything that publishing writes."""
    whole = {
        "span": [content.span.start_ms, content.span.end_ms],
        "status": content.status,
        "params": dict(content.params),
        "metrics": dict(content.metrics),
        "tags": dict(content.identity) | dict(content.tags),
        "texts": dict(content.texts),
        "files": {name: _digest(path) for name, path in content.files.items()},
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measured(metrics: Mapping[str, float | int | None]) -> dict[str, float]:
    """The finite ones: an unmeasured value is absent, never 0 or NaN."""
    return {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}


def short_name(text: str, short_id: str) -> str:
    """`text` as a run name; one that is too long keeps its beginning, visibly cut, and its id."""
    tail = f"… ({short_id})"
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - len(tail)] + tail


def fitted(name: str, text: str, limit: int, short_id: str) -> tuple[str, dict[str, str]]:
    """`text` where it fits `limit`, else `short_id` and a pointer to an artifact `<name>.txt` that holds all of it."""
    if len(text) <= limit:
        return text, {}
    file = f"{name}.txt"
    return f"{short_id} ({len(text)} characters, whole in the artifact {file})", {file: text}


def option_params(options: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Options as MLflow params, and artifact texts for values that do not fit; values are spelt as Hydra reads them."""
    params: dict[str, str] = {}
    texts: dict[str, str] = {}
    for option, value in options.items():
        key = _param_key(option)
        params[key], more = fitted(f"params/{_short_hash(key)}", _spelt(value), MAX_PARAM_VALUE, _short_hash(option))
        texts |= more
    return params, texts


def _param_key(option: str) -> str:
    """MLflow's keys are made of word characters and `/ . - : space`, and must be normal as paths."""
    key = re.sub(r"[^\w.\- :]", "_", option)
    if key == option and 0 < len(key) <= MAX_PARAM_KEY and key not in (".", ".."):
        return key
    # What was replaced or cut may make two options equal: the hash keeps them apart.
    return f"{key[:200]}-{_short_hash(option)}"


def _spelt(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_spelt(item) for item in value) + "]"
    return str(value)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def storable(content: RunContent) -> RunContent:
    """`content` without the characters that a database, a terminal or XML refuses or obeys: NUL and other controls,
    halves of surrogate pairs, marks that turn the direction of text. Each shows as �; tabs and line ends stay."""
    return replace(
        content,
        name=_plain(content.name),
        params={key: _plain(value) for key, value in content.params.items()},
        tags={key: _plain(value) for key, value in content.tags.items()},
        texts={name: _plain(text) for name, text in content.texts.items()},
    )


def _plain(text: str) -> str:
    return UNSTORABLE.sub("�", text)
