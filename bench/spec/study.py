"""A study: one set of controls, the placements measured under it, and what is recorded beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.spec.controls import Controls

SCHEMA_VERSION = 1
GATE, AUTO, OFF = "gate", "auto", "off"
AUDITS, RESTORES = (GATE, OFF), (AUTO, OFF)


@dataclass(frozen=True, kw_only=True)
class PlacementEntry:
    """A placement of a study, with what yielded it."""

    text: str
    """Canonical placement text; equal placements have equal text."""
    id: str
    """Short stable id of the text."""
    generators: tuple[str, ...]
    """The generators that yielded it, in words (`every block`, `2 spans`, `explicit`, `twin of …`)."""
    twin_of: str | None = None
    """The placement that it is with @restore, where the gate brought it in for that one."""


@dataclass(frozen=True, kw_only=True)
class ChainInfo:
    """Units that the model runs one after another, and the kinds of submodule inside each."""

    name: str
    units: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind (`attention`, `mlp`, `norm`) → paths relative to a unit (`attn`, `ln_1`)."""


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Bounds on effort. They are not part of the control key: they change how sure a number is, not what it means."""

    time_cap_s: float | None = None
    """Wall seconds of measuring for the whole study, divided over its executions; None for no cap. Forecasts, audits
    and, where a process measures all placements, building the step are not counted."""
    sample_timeout_s: float = 600.0
    """A single sample, memory pass, audit or build that takes longer ends the worker; the outcome is `timeout`."""


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    name: str
    """Directory name without the key (`gpt2`)."""
    key: str
    """Control key: hash of `controls`."""
    controls: Controls
    placements: tuple[PlacementEntry, ...]
    chains: tuple[ChainInfo, ...]
    caps: Caps = field(default_factory=Caps)
    audit: str = "off"
    """One of AUDITS. `gate`: a placement is measured only once its replay is proved to train the same. A study file
    without this entry is from before there were audits."""
    restore: str = "off"
    """One of RESTORES. `auto`: where the gate turns a placement away and its twin with @restore is valid, the twin
    joins the study."""
    reference: str | None = None
    """Placement text that must be in every round; None lets the study choose (`none` where it fits)."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    """Recorded beside the controls and not part of the key: git commit, constraints hash."""
    schema_version: int = SCHEMA_VERSION
