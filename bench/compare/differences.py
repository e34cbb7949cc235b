"""What differs between the controls of two studies, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

GROUPS = (
    "model",
    "facts.device_name",
    "device",
    "workload",
    "precision",
    "optimizer",
    "recipe",
    "parallelism",
    "facts",
    "protocol",
)
"""In the order in which a reader asks; an option belongs to the first that it begins with."""
UNLIKE = (
    "model.",
    "workload.micro_batch",
    "workload.accumulation",
    "workload.shape.",
    "workload.lengths",
    "workload.data",
    "parallelism.",
    "device.kind",
    "device.threads",
    "facts.device_name",
)
"""Options by which the step is another job, or runs on other hardware: its bytes and milliseconds are no better or
worse than the other's. Precision, optimizer, recipe, versions and allocator are ways to do one job."""
PLAIN_PREFIXES = ("facts.versions.", "workload.shape.", "workload.", "facts.")
"""What stands behind them says it alone: `torch`, `sequence_length`, `micro_batch`, `device_name`."""
ABSENT = "not set"
MODEL_NAME = "model.name"

Flat = Mapping[str, object]
"""Dotted option → value, as `Frontier.controls`."""


def difference_words(baseline: Flat, candidate: Flat) -> tuple[str, ...]:
    """One phrase an option that differs, `torch 2.11.0 → 2.14.0`, the baseline's value first."""
    return tuple(_words(option, baseline, candidate) for option in _differing(baseline, candidate))


def unlike_words(baseline: Flat, candidate: Flat) -> tuple[str, ...]:
    """Those of them that make absolute numbers not like for like."""
    return tuple(
        _words(option, baseline, candidate) for option in _differing(baseline, candidate) if option.startswith(UNLIKE)
    )


def option_words(option: str) -> str:
    """`workload.shape.sequence_length` is `sequence_length`, `optimizer.settings.lr` is `optimizer lr`."""
    for prefix in PLAIN_PREFIXES:
        if option.startswith(prefix):
            return option.removeprefix(prefix)
    return re.sub(r"\.(settings\.)?", " ", option.removesuffix(".name"))


def _differing(baseline: Flat, candidate: Flat) -> list[str]:
    # Which of several equal devices it was is no control.
    options = sorted((baseline.keys() | candidate.keys()) - {"device.index"}, key=_rank)
    differing = [option for option in options if _spelt(baseline, option) != _spelt(candidate, option)]
    if MODEL_NAME not in differing:
        return differing
    # Settings of two models have nothing to do with each other, even where they share a name.
    return [option for option in differing if option == MODEL_NAME or not option.startswith("model.")]


def _rank(option: str) -> tuple[int, str]:
    group = next((i for i, name in enumerate(GROUPS) if option == name or option.startswith(f"{name}.")), len(GROUPS))
    return group, option


def _words(option: str, baseline: Flat, candidate: Flat) -> str:
    return f"{option_words(option)} {_spelt(baseline, option)} → {_spelt(candidate, option)}"


def _spelt(flat: Flat, option: str) -> str:
    value = flat.get(option)
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 0 and 0.0 are one setting
    return str(value)
