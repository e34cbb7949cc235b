"""What a peer system is to the harness: a name, a source, and a function from a model's facts to placements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from bench.placement.types import Placement
from bench.spec import ChainInfo
from bench.step.interface import FORWARD
from bench.trace.fake import FakeStep
from bench.trace.log import StepLog

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile


class PeerRefusedError(RuntimeError):
    """A peer that places nothing on this model or under this budget: says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepFacts:
    """What peers ask about a step beyond its profile."""

    model: nn.Module
    """Its modules are looked at and never run, so it may be on fake tensors."""
    chains: tuple[ChainInfo, ...]
    log: StepLog
    """Of the plain step."""
    op_ms: tuple[float, ...]
    """Of each op of `log`, in place."""
    new_step: Callable[[], FakeStep]
    """A step of its own for a peer that must run one."""

    def is_in_first_forward(self, index: int) -> bool:
        """Whether op `index` of the log is in the forward of the first micro-batch."""
        op = self.log.ops[index]
        return op.phase == FORWARD and op.micro_batch == 0


Answer = Placement | PeerRefusedError
PlaceFunction = Callable[["StepProfile", StepFacts, Sequence[int]], Iterable[tuple[int | None, Answer]]]
"""(profile, facts, budgets in bytes) → (the budget, or None where it takes none; what is placed), one or several."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    name: str
    """`torchtitan-full`; how people ask for it."""
    source: str
    """One line: where the method comes from."""
    is_installable: bool
    """Whether people can install it today; otherwise it is re-created from its paper."""
    place: PlaceFunction
    packages: tuple[str, ...] = ()
    """That must be importable; the extra `peers` has them."""
