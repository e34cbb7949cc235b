"""Autocast as CUDA does it, for a device whose backend has none.

The casts follow aten/src/ATen/autocast_mode.{h,cpp}. They weigh on memory: the cast of a weight is made once and kept
until the outermost autocast ends (`cached_cast`), and each replay, which enters an autocast of its own in backward,
makes it anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from bench.target.autocast_ops import (
    BANNED,
    FLOAT32,
    FLOAT32_APPENDED,
    FLOAT32_RESULT,
    LOWER_PRECISION,
    WIDEST,
)

aten = torch.ops.aten
Kernel = Callable[..., Any]
_KEY = getattr(torch._C.DispatchKey, "AutocastPrivateUse1")  # noqa: B009 (its stub lacks it)
_libraries: list[torch.library.Library] = []
_device_type = ""
_casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
"""Of leaves that require a gradient, by identity; emptied as the outermost autocast ends."""


def register_autocast(device_type: str) -> None:
    """For the device that is registered under PrivateUse1; once in a process."""
    global _device_type
    _device_type = device_type
    everything, ours = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, dispatch_key="AutocastPrivateUse1")
    _libraries.extend((everything, ours))
    for names, make in (
        (LOWER_PRECISION, _in_lower_precision),
        (FLOAT32, _in_float32),
        (FLOAT32_RESULT, _with_float32_result),
        (WIDEST, _in_widest),
        (BANNED, _banned),
    ):
        for name in names:
            ours.impl(name, make(op_named(name)), dispatch_key="AutocastPrivateUse1")
    for name, other in FLOAT32_APPENDED.items():
        ours.impl(name, _redirected(op_named(name), op_named(other)), dispatch_key="AutocastPrivateUse1")
    clear = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        clear()
        _casts.clear()

    torch.clear_autocast_cache = clear_autocast_cache


def op_named(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _below(op: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEY)):
        return op(*args, **kwargs)


def _in_lower_precision(op: Any) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _cast((args, kwargs), torch.get_autocast_dtype(_device_type))
        return _below(op, args, kwargs)

    return run


def _in_float32(op: Any) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _cast((args, kwargs), torch.float32)
        return _below(op, args, kwargs)

    return run


def _with_float32_result(op: Any) -> Kernel:
    position = [argument.name for argument in op._schema.arguments].index("dtype")
    keyword_only = op._schema.arguments[position].kwarg_only

    def run(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("dtype") if keyword_only or len(args) <= position else args[position]
        if given is None and _eligible(args[0]):
            args, kwargs = args[: position if not keyword_only else None], {**kwargs, "dtype": torch.float32}
        return _below(op, args, kwargs)

    return run


def _redirected(op: Any, other: Any) -> Kernel:
    names = [argument.name for argument in op._schema.arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        if not _eligible(args[0]):
            return _below(op, args, kwargs)
        filled = {argument.name: argument.default_value for argument in op._schema.arguments[len(args) :]}
        filled.update(kwargs)
        values = [*args, *(filled[name] for name in names[len(args) :])]
        return _below(other, values, {"dtype": torch.float32})

    return run


def _in_widest(op: Any) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if _eligible(leaf)]
        wide = any(tensor.dtype == torch.float32 for tensor in tensors)
        args, kwargs = _cast((args, kwargs), torch.float32 if wide else torch.get_autocast_dtype(_device_type))
        return _below(op, args, kwargs)

    return run


def _banned(op: Any) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{op._schema.name} and torch.nn.BCELoss are unsafe to autocast, and refused on CUDA: use "
            "binary_cross_entropy_with_logits"
        )

    return run


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == _device_type
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(values: Any, dtype: torch.dtype) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEY)):
        return tree_map(lambda value: _cached_cast(value, dtype), values)


def _cached_cast(value: Any, dtype: torch.dtype) -> Any:
    if not _eligible(value) or value.dtype == dtype:
        return value
    is_cached = (
        dtype == torch.get_autocast_dtype(_device_type)
        and value.dtype == torch.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
        and torch.is_autocast_cache_enabled()
    )
    if not is_cached:
        return value.to(dtype)
    known = _casts.get(id(value))
    if known is None or known[0]() is not value:
        known = _casts[id(value)] = (weakref.ref(value), value.to(dtype))
    return known[1]
