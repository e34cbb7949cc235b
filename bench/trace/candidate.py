"""A region that is worth trying next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Candidate:
    placement: str
    """The whole placement with it, to be asked for."""
    region: str
    """What is new in it: one region, or several of a kind."""
    freed_bytes: int
    """How much lower its peak is than that of the placement it goes on from."""
    replay_flops: int | None
    """How much more it replays; less than 0 where it replays less, None where an op's FLOPs are not known."""
