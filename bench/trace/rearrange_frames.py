"""What surrounds the items of a script while it runs: regions in flight, replays, and what policies keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench.placement.policy import aten_ops
from bench.placement.types import Kept
from bench.trace.rearrange_reads import Reads
from bench.trace.rearrange_regions import RegionCall


@dataclass(eq=False, slots=True)
class Frame:
    """What torch.utils.checkpoint keeps of one call of a region."""

    call: RegionCall
    resources: list[int] = field(default_factory=list)
    """Storages that it holds: inputs and RNG state."""
    inputs: list[int] = field(default_factory=list)
    """Storages of its boundary, or of saved tensors of the region around it, where that is one."""
    outer: Frame | None = None
    saved: list[int] = field(default_factory=list)
    """What was packed in its first pass, in order."""
    num_alive: int = 0
    """Saved tensors that backward has not let go of."""
    is_open: bool = True
    """The first pass is running."""
    is_replayed: bool = False
    rebuilt: dict[int, int] = field(default_factory=dict)
    """Saved tensor → storage of the replay."""
    num_rebuilt: int = 0
    cache: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """(kept op, number of its call) → (storage of the script, storage) of each result."""


@dataclass(eq=False, slots=True)
class World:
    """The tensors of one replay, or of the step outside replays."""

    own: dict[int, int] | None
    """Storage of the script → storage that stands for it; None where each stands for itself."""
    python: set[int] = field(default_factory=set)
    """Storages of the script that Python holds."""
    graph: dict[int, int] = field(default_factory=dict)
    """Saved tensor → storage, held by the graph that the replay builds, and by nothing else."""
    frames: list[Frame] = field(default_factory=list)
    """Of regions inside a replay."""
    spans: dict[RegionCall, list[int]] = field(default_factory=dict)
    """Storages of outputs that wait for their call."""
    reads: Reads | None = None
    """Of the region that is replayed."""
    escaped: tuple[int, ...] = ()
    """Storages that the last op was the last to read, to be let go of before the next."""


class Policy:
    """What a region keeps, while one pass of it runs."""

    def __init__(self, frame: Frame, *, is_replay: bool) -> None:
        self.frame = frame
        self.is_replay = is_replay
        self._chosen = {op: kept for kept in frame.call.region.keeps for op in aten_ops(kept.op)}
        self._counts: Counter[str] = Counter()

    def kept_call(self, op: str) -> tuple[str, int] | None:
        """To be asked once for every op: whether this one is kept, and as which."""
        kept = self._chosen.get(op)
        if kept is None:
            return None
        number = self._counts[kept.op]
        self._counts[kept.op] += 1
        return (kept.op, number) if _is_kept(kept, number) else None


def _is_kept(kept: Kept, number: int) -> bool:
    return number in kept.calls if kept.calls else number % kept.every == 0


@dataclass(frozen=True, slots=True)
class Pass:
    """What surrounds the items that run."""

    world: World
    frame: Frame | None
    """The innermost region."""
    rebuilds: bool
    """Whether this is the replay of `frame`, and not a first pass."""
    policies: tuple[Policy, ...] = ()
    """Innermost last."""
