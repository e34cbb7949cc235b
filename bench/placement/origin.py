"""Where a placement was measured: what a file of it holds beside its text, and what of it can be checked on a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RECORDED = ("model_digest", "model_modules", "model_parameters")
"""Entries of a study's `recorded` that hold a fingerprint."""


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """A model's structure, without its weights."""

    digest: str
    """16 hex digits over each module's name, class and own parameters with their shapes, in the model's order."""
    num_modules: int
    num_parameters: int
    """Numbers in all parameters; a tensor that modules share counts once."""

    def recorded(self) -> dict[str, str]:
        """As entries of a study's `recorded`."""
        values = (self.digest, self.num_modules, self.num_parameters)
        return {name: str(value) for name, value in zip(RECORDED, values, strict=True)}

    @classmethod
    def of_recorded(cls, recorded: Mapping[str, str]) -> Fingerprint | None:
        """None where the study is from before it was recorded."""
        if not recorded.keys() >= set(RECORDED):
            return None
        digest, modules, parameters = (recorded[name] for name in RECORDED)
        return cls(digest=digest, num_modules=int(modules), num_parameters=int(parameters))


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The study that a placement was chosen from: its model and its controls."""

    study: str
    """Directory name."""
    key: str
    """Control key."""
    model: str
    fingerprint: Fingerprint | None = None
    """None where the study does not hold it."""
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Chain → its units, all of them."""
    precision: str
    device: str
    """`cpu` or `cuda`."""
    device_name: str
    versions: Mapping[str, str]
    """Of torch, Python and the model's library."""
    micro_batch: int
    shape: Mapping[str, int] = field(default_factory=dict)
    """Sizes of one sample."""
    time_ratio: float | None = None
    """Step time over that of the study's reference."""
    reference: str | None = None
    peak_allocated_bytes: int | None = None
    dropout: float | None = None
    """The largest probability among the model's settings; None where none of them is one."""
