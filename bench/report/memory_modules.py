"""Which module runs where along the axis, folded so that the names fit."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass

from bench.report.memory_axis import Axis
from bench.trace.log import StepLog

MAX_RUNS = 44
"""More do not fit with their numbers; then modules are folded further, but not beyond their first number."""
DEEPEST = 3
"""Numbers in a name."""


@dataclass(frozen=True, kw_only=True)
class ModuleRun:
    """A stretch of the axis in which ops of one module run, its submodules included."""

    group: str
    """The name without its last number, as `transformer.h`; the whole of a name without one."""
    number: str
    """`11`, or empty."""
    phase: int
    """That it lies in, of `axis.phases`."""
    left: float
    right: float


def module_runs(log: StepLog, axis: Axis) -> tuple[ModuleRun, ...]:
    """Runs in the order of the axis, at the finest folding that has few enough of them.

    An op outside every module, such as adding up a gradient, belongs to the run that it falls in.
    """
    modules = [(op.module, left) for op, left in zip(log.ops, axis.ops, strict=True)]
    ends = [span.right for span in axis.phases]
    runs: list[ModuleRun] = []
    for level in range(DEEPEST, 0, -1):
        runs = _runs(modules, ends, level)
        if len(runs) <= MAX_RUNS:
            break
    return tuple(runs)


def folded(module: str, level: int) -> str:
    """The name as far as its `level`-th number; where it has fewer, one name further than the last that it has.

    >>> folded("encoder.block.3.layer.1.DenseReluDense.wi", 1), folded("encoder.block.3.layer.1.DenseReluDense.wi", 2)
    ('encoder.block.3', 'encoder.block.3.layer.1')
    >>> folded("transformer.h.3.attn.c_attn", 2), folded("transformer.wte", 1), folded("vit.embeddings.projection", 1)
    ('transformer.h.3.attn', 'transformer.wte', 'vit.embeddings')
    """
    parts = module.split(".")
    numbers = [index for index, part in enumerate(parts) if part.isdigit()]
    if len(numbers) >= level:
        return ".".join(parts[: numbers[level - 1] + 1])
    return ".".join(parts[: numbers[-1] + 2 if numbers else 2])


def _runs(modules: list[tuple[str, float]], ends: list[float], level: int) -> list[ModuleRun]:
    """A run ends where the next begins, or with its phase."""
    named = [(folded(module, level), left) for module, left in modules if module]
    runs = []
    for name, group in itertools.groupby(named, key=lambda entry: (entry[0], bisect_right(ends, entry[1]))):
        left = next(group)[1]
        runs.append((name, left))
    lasts = [*(left for _, left in runs[1:]), ends[-1] if ends else 0.0][: len(runs)]
    found = []
    for ((name, phase), left), right in zip(runs, lasts, strict=True):
        end = ends[phase] if phase < len(ends) else right
        prefix, _, number = name.rpartition(".")
        is_numbered = number.isdigit()
        found.append(
            ModuleRun(
                group=prefix if is_numbered else name,
                number=number if is_numbered else "",
                phase=phase,
                left=left,
                right=min(right, end),
            )
        )
    return found
