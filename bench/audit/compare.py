"""Two outcomes held against each other, in the order in which differences come about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bench.audit.digest import plain, same_bits
from bench.audit.outcome import AFTER_FORWARD, AFTER_STEPS, Gradients, Outcome
from bench.audit.world import Readings

LOSS, GRADIENT_VALUE, GRADIENT_MISSING, PARAMETER, BUFFER = (
    "loss",
    "gradient",
    "missing gradient",
    "parameter",
    "buffer",
)
PYTHON, SEED, STRUCTURE, NAMES, ERROR = "python", "seed", "structure", "names", "error"

OF_VALUES = (LOSS, GRADIENT_VALUE, PARAMETER)


@dataclass(frozen=True, kw_only=True)
class Difference:
    what: str
    """LOSS, GRADIENT_VALUE … above."""
    name: str
    """Of the parameter, buffer, path, generator or module."""
    when: str
    plain: str
    replayed: str
    error: float | None = None
    """Relative, root mean square; None where only equal counts."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.what, self.name, self.when


def differences(plain_outcome: Outcome, replayed: Outcome) -> list[Difference]:
    return list(_differences(plain_outcome, replayed))


def _differences(one: Outcome, other: Outcome) -> Iterator[Difference]:
    for number, (a, b) in enumerate(zip(one.losses, other.losses, strict=False), start=1):
        if a is not None and b is not None and not same_bits(a, b):
            yield _tensor(LOSS, "", f"in step {number}", a, b)
    for number, (gradients, others) in enumerate(zip(one.gradients, other.gradients, strict=False), start=1):
        yield from _gradients(gradients, others, f"in step {number}")
    if one.error is not None or other.error is not None:
        if type(one.error) is not type(other.error):
            yield Difference(what=ERROR, name="", when="", plain=_said(one.error), replayed=_said(other.error))
        return
    if len(one.gradients) != len(other.gradients):
        yield _plain(NAMES, "optimizer steps", AFTER_STEPS, len(one.gradients), len(other.gradients))
    if list(one.parameters) != list(other.parameters):
        changed = sorted(one.parameters.keys() ^ other.parameters.keys()) or ["their order"]
        yield _plain(NAMES, changed[0], AFTER_STEPS, len(one.parameters), len(other.parameters))
    for name in one.parameters.keys() & other.parameters.keys():
        if not same_bits(one.parameters[name], other.parameters[name]):
            yield _tensor(PARAMETER, name, AFTER_STEPS, one.parameters[name], other.parameters[name])
    for path in one.structures.keys() & other.structures.keys():
        if one.structures[path] != other.structures[path]:
            yield _plain(STRUCTURE, path, "", *(" or ".join(sorted(o.structures[path])) for o in (one, other)))
    ignored = {p for p in one.start.keys() | other.start.keys() if one.start.get(p) != other.start.get(p)}
    ignored |= wrappers_own(one, other)
    for when in (AFTER_STEPS, AFTER_FORWARD):
        yield from _moment(one, other, when, ignored)


def _moment(one: Outcome, other: Outcome, when: str, ignored: set[str]) -> Iterator[Difference]:
    a, b = one.moments[when], other.moments[when]
    for name in a.seeds.keys() & b.seeds.keys():
        if a.seeds[name] != b.seeds[name]:
            yield _plain(SEED, name, when, a.seeds[name], b.seeds[name])
    for name, buffer in a.buffers.items():
        if name in b.buffers and not same_bits(buffer, b.buffers[name]):
            yield _tensor(BUFFER, name, when, buffer, b.buffers[name])
    for path in changed_paths(a.world, b.world):
        if path not in ignored and path not in a.buffers:
            yield _plain(PYTHON, path, when, *(_read(w, path) for w in (a.world, b.world)))


def wrappers_own(one: Outcome, other: Outcome) -> set[str]:
    """Paths of Python state that a wrapper keeps for itself: the plain step never has them, and a forward without a
    backward leaves them all as the steps did, so nothing is added up there."""
    if not other.is_wrapped or one.moments.keys() != other.moments.keys() or not other.moments:
        return set()
    steps, forward = (
        {path: read for path, read in other.moments[when].world.items() if path not in one.moments[when].world}
        for when in (AFTER_STEPS, AFTER_FORWARD)
    )
    return set(steps) if repr(steps) == repr(forward) else set()


def changed_paths(one: Readings, other: Readings) -> list[str]:
    paths = [*one, *(path for path in other if path not in one)]
    return [path for path in paths if not _same(one, other, path)]


def _same(one: Readings, other: Readings, path: str) -> bool:
    a, b = one.get(path), other.get(path)
    if a is None or b is None:
        return a is b
    return repr(a.value) == repr(b.value)


def _gradients(one: Gradients, other: Gradients, when: str) -> Iterator[Difference]:
    for name, a in one.items():
        if name not in other:
            continue
        b = other[name]
        if (a is None) != (b is None):
            yield _plain(GRADIENT_MISSING, name, when, _given(a), _given(b))
        elif a is not None and b is not None and not same_bits(plain(a), plain(b)):
            yield _tensor(GRADIENT_VALUE, name, when, plain(a), plain(b))


def _tensor(what: str, name: str, when: str, a: torch.Tensor, b: torch.Tensor) -> Difference:
    error = None
    if a.shape == b.shape and a.dtype == b.dtype:
        x, y = a.to(torch.float64), b.to(torch.float64)
        scale = max(float(x.norm()), float(y.norm()))
        error = float((x - y).norm()) / scale if scale else 0.0
        error = error if error == error else None  # not a number in one and not in the other
    return Difference(what=what, name=name, when=when, plain=_told(a), replayed=_told(b), error=error)


def _plain(what: str, name: str, when: str, a: object, b: object) -> Difference:
    return Difference(what=what, name=name, when=when, plain=str(a), replayed=str(b))


def _told(tensor: torch.Tensor) -> str:
    if tensor.numel() == 1:
        return f"{tensor.item():.9g}"
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} of norm {float(tensor.double().norm()):.6g}"


def _given(gradient: torch.Tensor | None) -> str:
    return "none" if gradient is None else _told(gradient)


def _read(world: Readings, path: str) -> str:
    return world[path].told() if path in world else "nothing"


def _said(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
