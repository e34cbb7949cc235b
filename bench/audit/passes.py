"""Every pass of every region that is built on torch.utils.checkpoint, whoever built it: ours, transformers', torch's
own wrapper, or a call in the model's code.

All of them come through two names in that module, the generator behind a non-reentrant checkpoint and the autograd
function behind a reentrant one. Both are replaced for the time of a `with` block, and so is the hook that packs a
region's saved tensors, which knows what "tensor at position 46" is. Never while anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.utils.checkpoint as checkpointing


class PassObserver(Protocol):
    def enter(self, call: int, is_replay: bool, arguments: Mapping[str, Any], how: How) -> None:
        """A pass of a region begins with these arguments, by place or name. `call` is the same for its first pass and
        its replays."""

    def leave(self, call: int, raised: BaseException | None, is_stopped: bool) -> None:
        """`is_stopped`: the replay had rebuilt all that it had to, and ended early."""

    def packed(self, call: int, tensor: torch.Tensor) -> None:
        """A region's next saved tensor, in its first pass."""

    def handed_out(self, call: int, made: Any, given: Any) -> None:
        """What a reentrant region's code returned, and what its checkpoint made of it."""


class How:
    """How a region is checkpointed."""

    def __init__(self, *, reentrant: bool, selective: bool) -> None:
        self.reentrant = reentrant
        self.selective = selective


@contextmanager
def observing_passes(observer: PassObserver) -> Iterator[None]:
    module: Any = checkpointing
    names = ("_checkpoint_without_reentrant_generator", "CheckpointFunction", "_checkpoint_hook")
    before = {name: getattr(module, name) for name in names}
    numbers = iter(range(2**62))
    packing: list[int] = []

    def generator(function: Any, preserve: Any, context_fn: Any, *rest: Any, **kwargs: Any) -> Iterator[None]:
        call = next(numbers)
        how = How(reentrant=False, selective=context_fn is not module.noop_context_fn)
        replay = _observed(observer, call, how, function, is_replay=lambda: True)
        arguments = rest[3:]  # determinism_check, debug and early_stop come first
        inner = before[names[0]](replay, preserve, context_fn, *rest, **kwargs)
        packing.append(call)
        try:
            next(inner)
        finally:
            packing.pop()
        observer.enter(call, False, _named(arguments, kwargs), how)
        try:
            yield
        except BaseException as error:
            observer.leave(call, error, False)
            inner.throw(error)
            raise
        observer.leave(call, None, False)
        for _ in inner:  # what follows the first pass
            pass

    class Function:
        @staticmethod
        def apply(function: Any, preserve: Any, *args: Any) -> Any:
            call = next(numbers)
            passes: list[int] = []
            made: list[Any] = []

            def run(*args: Any) -> Any:
                result = observed(*args)
                made[:] = [result]
                return result

            def is_replay() -> bool:
                passes.append(1)
                return len(passes) > 1

            observed = _observed(observer, call, How(reentrant=True, selective=False), function, is_replay)
            given = before[names[1]].apply(run, preserve, *args)
            observer.handed_out(call, made.pop() if made else None, given)
            return given

    base: Any = before[names[2]]

    class Hook(base):
        def __init__(self, frame: Any) -> None:
            super().__init__(frame)
            pack: Any = vars(self)["pack_hook"]
            call = packing[-1] if packing else -1

            def packed(tensor: torch.Tensor) -> Any:
                observer.packed(call, tensor)
                return pack(tensor)

            self.pack_hook = packed

    replaced = dict(zip(names, (generator, Function, Hook), strict=True))
    try:
        for name, stand_in in replaced.items():
            setattr(module, name, stand_in)
        yield
    finally:
        for name, original in before.items():
            setattr(module, name, original)


def _observed(
    observer: PassObserver, call: int, how: How, function: Callable[..., Any], is_replay: Callable[[], bool]
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        observer.enter(call, is_replay(), _named(args, kwargs), how)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            is_stopped = isinstance(error, checkpointing._StopRecomputationError)
            observer.leave(call, None if is_stopped else error, is_stopped)
            raise
        observer.leave(call, None, False)
        return result

    return run


def _named(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**{str(index): value for index, value in enumerate(args)}, **kwargs}
