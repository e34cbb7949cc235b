"""What a CPU kernel takes for itself, seen in a rehearsal: each distinct kernel call of a step runs once, on throw-away
tensors of its shapes and strides, and the allocator's events are kept in their order.

oneDNN chooses scratchpads and blocked layouts by instruction set, threads, shapes and version, so no rule written
here would be right on another machine, and a rehearsal on this one is. It needs the memory of one op at a time, and the
time of each distinct call once: equal blocks of a model share theirs. Ops known to take nothing are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map

from bench.measure.memory_cpu import allocator_events
from bench.measure.ops import UncountedOpError, count_flops
from bench.trace.blocks import Blocks
from bench.trace.fake_ledger import KernelBlocks
from bench.trace.ledger import tensors_of
from bench.trace.values import known_value

aten = torch.ops.aten
MAX_FLOPS = 4 * 10**12
"""A kernel that computes more than this is not rehearsed: some tens of seconds on a few cores."""
SHARE_OF_FREE_MEMORY = 0.5
"""Of the memory that is available, what a rehearsal may take."""

_TAKES_NOTHING = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_strided.default,
        aten.empty_like.default,
        aten.new_empty.default,
        aten.new_empty_strided.default,
        aten.new_zeros.default,
        aten.zeros.default,
        aten.zeros_like.default,
        aten.ones.default,
        aten.ones_like.default,
        aten.full.default,
        aten.full_like.default,
        aten.fill_.Scalar,
        aten.zero_.default,
        aten.arange.start_step,
        aten.arange.start,
        aten.arange.default,
        aten.clone.default,
        aten._to_copy.default,
        aten.copy_.default,
        aten.cat.default,
        aten._fused_adamw_.default,
        aten._fused_adam_.default,
        aten._fused_sgd_.default,
    }
)
_MATMULS = frozenset({aten.mm.default, aten.addmm.default})


class Rehearsals:
    """A `Workspace` of the process that it is made in: its thread count and instruction set are those of the forecast.

    Use one for all forecasts of a study, since it remembers what it has seen.
    """

    def __init__(self, max_bytes: int | None = None, max_flops: int = MAX_FLOPS) -> None:
        """`max_bytes`: what the tensors of one op may take; half of the memory that is available where it is None."""
        self._max_bytes = max_bytes
        self._max_flops = max_flops
        self._seen: dict[Any, KernelBlocks | None] = {}
        self.skipped: dict[str, str] = {}
        """Op → why its kernel was not rehearsed, so that what it takes is not in the forecast."""

    def __call__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> KernelBlocks | None:
        """What the kernel takes; None where that is nothing, or is not known (see `skipped`)."""
        if _takes_nothing(func, args, result):
            return None
        key = (func, _described(args), _described(tuple(sorted(kwargs.items()))), torch.get_num_threads())
        if key not in self._seen:
            self._seen[key] = self._rehearsed(func, args, kwargs, result)
        return self._seen[key]

    def _rehearsed(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> KernelBlocks | None:
        if "rnn_layer" in func._schema.name:
            raise RuntimeError(
                f"{func._schema.name} keeps a workspace for its backward whose size fake tensors do not know; "
                "measure this model"
            )
        why = self._refused(func, args, kwargs, result)
        if not why:
            try:
                return rehearse(func, args, kwargs, result)
            except (RuntimeError, IndexError) as error:  # its arguments' values matter to it
                why = f"on zeros: {str(error).splitlines()[0]}"
        self.skipped.setdefault(func._schema.name.removeprefix("aten::"), why)
        return None

    def _refused(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> str:
        size = sum(t.untyped_storage().nbytes() for t in tree_leaves((args, kwargs, result)) if _is_tensor(t))
        most = self._max_bytes if self._max_bytes is not None else int(_available_bytes() * SHARE_OF_FREE_MEMORY)
        if 2 * size > most:
            return f"it may take {2 * size / 2**30:.1f} GiB, and {most / 2**30:.1f} GiB are at hand"
        try:
            flops = count_flops(func, tuple(args), kwargs, result) or 0
        except UncountedOpError:
            flops = 0
        if flops > self._max_flops:
            return f"it computes {flops / 1e12:.1f} TFLOP, which would take too long here"
        return ""


def rehearse(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> KernelBlocks | None:
    """Runs one kernel on throw-away tensors, zeros where values are not known; None where it takes nothing but its
    results.

    Raises:
        what the kernel raises, and RuntimeError where it hands out other shapes than those of `result`.
    """
    made: dict[int, torch.Tensor] = {}

    def thrown_away(value: Any) -> Any:
        if not _is_tensor(value):
            return value
        if id(value) not in made:
            made[id(value)] = _stand_in(value)
        return made[id(value)]

    with no_dispatch(), torch.no_grad(), _generator_kept():
        real_args, real_kwargs = tree_map(thrown_away, (tuple(args), kwargs))
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
            real_result = func(*real_args, **real_kwargs)
        if [t.shape for t in tensors_of([real_result])] != [t.shape for t in tensors_of([result])]:
            raise RuntimeError("the shape of its result depends on data")
        blocks = _blocks(watched)
        results: dict[int, int] = {}
        for position, leaf in enumerate(tensors_of([real_result])):
            owner = blocks.owner(leaf.untyped_storage().data_ptr(), len(blocks.events))
            if owner is not None:
                results.setdefault(owner, position)
    sizes = tuple(storage.size_bytes for storage in blocks.storages())
    if len(sizes) == len(results):
        return None
    return KernelBlocks(sizes=sizes, events=tuple(blocks.events), results=results)


@contextmanager
def _generator_kept() -> Iterator[None]:
    """Not `torch.random.fork_rng`, whose copy of the state the recorder would take for one of the step's."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _blocks(watched: profile) -> Blocks:
    blocks = Blocks()
    for event in allocator_events(watched):
        address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        if size > 0:
            blocks.allocated(address, size)
        else:
            blocks.released(address)
    return blocks


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    count = span if tensor.numel() else 0
    made = torch.zeros(count, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
    value = known_value(tensor)
    return made if value is None else made.copy_(value)


def _takes_nothing(func: Any, args: Sequence[Any], result: Any) -> bool:
    if func in _TAKES_NOTHING:
        return True
    name = func._schema.name
    if name.startswith("aten::_foreach"):
        return True
    if torch.Tag.pointwise in func.tags:
        # Operands of several dtypes are first copied to the common one.
        leaves = tensors_of([args, result])
        return len({t.dtype for t in leaves if t.dim() and t.dtype != torch.bool}) <= 1
    if func in _MATMULS:
        matrices = [t for t in args if _is_tensor(t)][-2:]
        return all(_is_plain_matrix(t) for t in matrices)
    return False


def _is_plain_matrix(tensor: torch.Tensor) -> bool:
    """BLAS takes it as it is; oneDNN, which has the other dtypes, may not."""
    rows, columns = tensor.shape
    down, across = tensor.stride()
    return tensor.dtype in (torch.float32, torch.float64) and (
        (across == 1 and down >= max(columns, 1)) or (down == 1 and across >= max(rows, 1))
    )


def _described(value: Any) -> Any:
    """Hashable, and equal where a kernel takes the same memory."""
    if _is_tensor(value):
        return tuple(value.shape), value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(_described(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _described(item)) for key, item in value.items())
    return value if isinstance(value, (int, str, bool, type(None), torch.dtype)) else repr(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _available_bytes() -> int:
    """Memory that can be had without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no Linux
        pass
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
