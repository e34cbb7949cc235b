"""What may differ without the step being another one.

Where two plain runs from one state differ, as with atomic adds on a GPU, a placement may differ a few times as much.
Where they are equal to the bit, so must it be, but for one case: all that was replayed is equal to the bit, and only
gradients are off by rounding, since a region's backward adds up shared gradients in another order, or since the first
pass of a reentrant region takes another kernel. Then only the first step is judged: an optimizer such as Adam makes
steps of full size out of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from bench.audit import compare
from bench.audit.compare import Difference
from bench.audit.outcome import Gradients, Outcome

REPEAT_FACTOR = 4.0
"""Times the difference between two plain runs; two draws of noise may well differ by that."""
REPEAT_ULPS = 4.0
ROUNDING_ULPS, LOW_PRECISION_ROUNDING_ULPS = 64.0, 4.0
"""Of the least precise dtype in use, relative to the root mean square of a gradient, or of all gradients where that is
more: the gradient of a key's bias is zero but for rounding."""
LOW_PRECISION_EPS = 1e-4
FLOATING = (compare.LOSS, compare.GRADIENT_VALUE, compare.PARAMETER, compare.BUFFER)
UNREASONABLE_LOSS, UNREASONABLE_GRADIENT = 0.1, 0.5
"""Relative difference between two plain runs, beyond which nothing can be held against them."""


def outside(found: Sequence[Difference], repeats: Sequence[Difference], eps: float) -> tuple[list[Difference], float]:
    """Differences that the plain step's own do not explain, and the largest tolerance that any needed."""
    allowed: dict[tuple[str, str], float] = {}
    if any(d.what in FLOATING for d in repeats):  # then nothing has to be equal to the bit
        allowed = {(what, d.when): 0.0 for d in found for what in FLOATING}
    for d in repeats:
        allowed[d.what, d.when] = max(allowed.get((d.what, d.when), 0.0), d.error if d.error is not None else math.inf)
    unexplained, used = [], 0.0
    for d in found:
        limit = allowed.get((d.what, d.when))
        if limit is None or (d.what not in FLOATING and not _repeats_differ(d, repeats)):
            unexplained.append(d)
            continue
        if d.what in FLOATING:
            tolerance = REPEAT_FACTOR * limit + REPEAT_ULPS * eps
            if d.error is None or d.error > tolerance:
                unexplained.append(d)
            used = max(used, tolerance)
    return unexplained, used


def _repeats_differ(d: Difference, repeats: Sequence[Difference]) -> bool:
    return any(d.key == other.key for other in repeats)


def why_unrepeatable(repeats: Sequence[Difference]) -> str:
    """Why nothing can be held against a plain step, or empty where it repeats well enough."""
    for d in repeats:
        limit = {compare.LOSS: UNREASONABLE_LOSS, compare.GRADIENT_VALUE: UNREASONABLE_GRADIENT}.get(d.what)
        if limit is not None and (d.error is None or d.error > limit):
            name = d.name or "the loss"
            return (
                f"the plain step does not repeat: from the same state and seeds {name} {d.when} was {d.plain} and "
                f"then {d.replayed}"
            )
        if d.what == compare.ERROR:
            return f"the plain step does not repeat: from the same state and seeds, first {d.plain}, then {d.replayed}"
    return ""


def rounding_tolerance(eps: float) -> float:
    return eps * (LOW_PRECISION_ROUNDING_ULPS if eps > LOW_PRECISION_EPS else ROUNDING_ULPS)


def is_rounding(found: Sequence[Difference], plain: Outcome, replayed: Outcome) -> bool:
    """Whether only floating-point values differ, and in the first step by rounding alone. Of parameters whose gradient
    no optimizer sees, since a hook steps them in backward, that is what all steps came to."""
    if any(d.what not in FLOATING for d in found) or not plain.gradients or not replayed.gradients:
        return False
    # Rounding begins in a loss or a gradient, and no count is off by it: what moved buffers alone was a forward.
    buffers = [plain.moments[d.when].buffers[d.name] for d in found if d.what == compare.BUFFER]
    if not all(b.is_floating_point() for b in buffers) or all(d.what == compare.BUFFER for d in found):
        return False
    limit = rounding_tolerance(max(plain.eps, replayed.eps))
    unseen = {name for name, gradient in plain.gradients[0].items() if gradient is None}  # stepped in backward
    judged = [d for d in found if d.what == compare.LOSS and d.when == "in step 1"]
    judged += [d for d in found if d.what == compare.PARAMETER and d.name in unseen]
    if any(d.error is None or d.error > limit for d in judged):
        return False
    return _gradient_error(plain.gradients[0], replayed.gradients[0]) <= limit


def _gradient_error(one: Gradients, other: Gradients) -> float:
    """The largest error of any gradient."""
    dense = {name: g.to_dense() if g.is_sparse else g for name, g in one.items() if g is not None}
    count = sum(g.numel() for g in dense.values())
    overall = math.sqrt(sum(float(g.double().square().sum()) for g in dense.values()) / count) if count else 0.0
    worst = 0.0
    for name, gradient in dense.items():
        again = other.get(name)
        if again is None or gradient.numel() == 0:
            continue
        error = (gradient.double() - (again.to_dense() if again.is_sparse else again).double()).square().mean().sqrt()
        scale = max(float(gradient.double().square().mean().sqrt()), overall)
        if not torch.isfinite(error):
            return math.inf
        worst = max(worst, float(error) / scale if scale else (0.0 if float(error) == 0 else math.inf))
    return worst
