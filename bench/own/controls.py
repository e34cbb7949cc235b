"""The controls of a study of somebody's own step: what was seen of it, what they say of it, and digests of its code."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.measure.environment import device_name, library_versions
from bench.own.observe import Observed
from bench.spec import (
    OWN_TARGET,
    Controls,
    DeviceSpec,
    Facts,
    ModelSpec,
    OptimizerSpec,
    ParallelismSpec,
    ProtocolSpec,
    RecipeSpec,
    SpecError,
    WorkloadSpec,
)
from bench.step.precision import PRECISIONS
from bench.step.sources import source_digest

ALLOCATOR_VARIABLES = ("MALLOC_", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
OPENMP_VARIABLES = ("GOMP_", "KMP_", "OMP_WAIT_POLICY")
Scalar = str | int | float | bool | None


def _variables(prefixes: tuple[str, ...]) -> dict[str, Scalar]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(prefixes)}


def own_controls(
    *,
    name: str,
    step: Callable[[], Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    seen: Observed,
    precision: str,
    micro_batch: int | None,
    protocol: ProtocolSpec,
    declared: Mapping[str, Scalar],
) -> Controls:
    """Raises SpecError where the micro-batch is neither given nor seen, or a declared control is no scalar."""
    samples = micro_batch if micro_batch is not None else seen.micro_batch
    if samples is None:
        raise SpecError("micro_batch: the step does not call the model itself; say measure(…, micro_batch=…)")
    for key, value in declared.items():
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise SpecError(f"controls.{key}: expected a text, a number, true, false or None, got {value!r}")
    fused = any(group.get("fused") for group in optimizer.param_groups)
    return Controls(
        model=ModelSpec(name=name, target=OWN_TARGET, settings=dict(declared)),
        workload=WorkloadSpec(
            micro_batch=samples, accumulation=seen.micro_batches, data=OWN_TARGET, seed=torch.initial_seed()
        ),
        optimizer=OptimizerSpec(
            name=type(optimizer).__name__.lower(), settings=_optimizer_settings(optimizer), fused=fused
        ),
        recipe=RecipeSpec(zero_grad="start" if seen.gradients_outlive_step else "end"),
        precision=precision,
        parallelism=ParallelismSpec(),
        device=DeviceSpec(
            kind=device.type,
            index=device.index or 0,
            threads=torch.get_num_threads() if device.type == "cpu" else 1,
            allocator=_variables(ALLOCATOR_VARIABLES),
            openmp=_variables(OPENMP_VARIABLES),
        ),
        protocol=protocol,
        facts=Facts(
            device_name=device_name(device),
            versions=library_versions(_libraries(model)) | _switches() | _digests(step, model),
            attention_kernels=seen.attention_ops,
            fused_optimizer=fused,
        ),
    )


def _libraries(model: nn.Module) -> tuple[str, ...]:
    """Distributions that the classes of the model's modules come from."""
    packages = {type(module).__module__.partition(".")[0] for module in model.modules()} - {"torch", "__main__"}
    of_package = metadata.packages_distributions()
    return ("torch", *sorted({name for package in packages for name in of_package.get(package, ())}))


def _switches() -> dict[str, str]:
    """Global settings of torch that decide what kernels compute and how fast."""
    return {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "cudnn_benchmark": str(torch.backends.cudnn.benchmark),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }


def named_precision(model: nn.Module, autocast: torch.dtype | None, asked: str | None) -> str:
    """The precision asked for; None takes the one that is seen.

    Raises:
        SpecError: it is none of ours, or there is no name for what is seen.
    """
    name = asked or seen_precision(model, autocast)
    if name not in PRECISIONS:
        raise SpecError(f"precision: {name!r} is not one of {', '.join(PRECISIONS)}")
    return name


def seen_precision(model: nn.Module, autocast: torch.dtype | None) -> str:
    """The name of the precision that weights and autocast come to.

    Raises:
        SpecError: there is no name for it.
    """
    weights = {p.dtype for p in model.parameters() if p.requires_grad} or {p.dtype for p in model.parameters()}
    for name, precision in PRECISIONS.items():
        if weights == {precision.weights} and autocast == precision.autocast:
            return name
    dtypes = ", ".join(sorted(map(str, weights)))
    raise SpecError(
        f"precision: weights are {dtypes} and autocast is {autocast}, which is none of {', '.join(PRECISIONS)}; say "
        "which of them comes nearest: precision=…"
    )


def _optimizer_settings(optimizer: torch.optim.Optimizer) -> dict[str, Scalar]:
    """Scalars of the parameter groups; `lr.1` is that of the second group where groups differ."""
    settings: dict[str, Scalar] = {}
    first = optimizer.param_groups[0]
    for index, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if key == "params" or key == "fused" or (index and value is first.get(key)):
                continue
            if index and not isinstance(value, torch.Tensor) and value == first.get(key):
                continue
            name = f"{key}.{index}" if index else key
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                settings[name] = float(value)
            elif isinstance(value, (str, int, float, bool)):
                settings[name] = value
            elif isinstance(value, (tuple, list)):
                settings[name] = " ".join(map(str, value))
    return settings


def _digests(step: Callable[[], Any], model: nn.Module) -> dict[str, str]:
    return {"own_script": _script(), "own_step": _step(step), "own_model": _structure(model)}


def _script() -> str:
    """Of the program that runs, and of what it imports from its own folder."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not Path(file).is_file():
        return "interactive"
    path = Path(file).resolve()
    return source_digest(path, path.parent)


def _step(step: Callable[[], Any]) -> str:
    """Source of the step, and the plain values that it takes from around itself: two steps of one factory differ."""
    settings: dict[str, str] = {}
    while isinstance(step, functools.partial):
        bound: dict[Any, Any] = {**dict(enumerate(step.args)), **step.keywords}
        settings |= {f"argument {key}": value for key, value in _plain(bound).items()}
        step = step.func
    function: Any = step if inspect.isroutine(step) else type(step).__call__
    function = inspect.unwrap(getattr(function, "__func__", function))
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = code.co_code.hex() if code else repr(type(step))
    try:
        around = inspect.getclosurevars(function)
        settings |= _plain({**around.globals, **around.nonlocals})
    except (TypeError, ValueError):  # not a Python function
        pass
    return _digest(source, repr(sorted(settings.items())))


def _plain(values: Mapping[Any, Any]) -> dict[str, str]:
    return {str(k): repr(v) for k, v in values.items() if isinstance(v, (str, int, float, bool, type(None)))}


def _structure(model: nn.Module) -> str:
    modules = [f"{name}: {type(module).__qualname__} {module.extra_repr()}" for name, module in model.named_modules()]
    tensors = [
        f"{name}: {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}"
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    ]
    return _digest(*modules, *tensors)


def _digest(*texts: str) -> str:
    return f"sha256:{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:16]}"
