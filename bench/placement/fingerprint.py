"""A model's fingerprint, and what differs between a live model and the one that a placement was measured on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from bench.placement.origin import Fingerprint, Origin

DIGITS = 16
BF16_PURE = "bf16-pure"


class OtherModelWarning(UserWarning):
    """A placement is put on another model, or under other controls, than it was measured on."""


def fingerprint_of(model: nn.Module) -> Fingerprint:
    """The same for fake and real tensors, on every device and in every precision, with and without a placement on it,
    and under `fully_shard`, which gives modules a class of its own."""
    lines = "\n".join(_lines(model))
    return Fingerprint(
        digest=hashlib.sha256(lines.encode()).hexdigest()[:DIGITS],
        num_modules=sum(1 for _ in model.modules()),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def differences(model: nn.Module, origin: Origin) -> tuple[str, ...]:
    """Sentences, each with both sides: what differs of model, torch, device and weights' dtype. Autocast and the batch
    are not known before a step runs; `bench.own.check` looks at them."""
    return tuple(_differences(model, origin))


def _differences(model: nn.Module, origin: Origin) -> Iterator[str]:
    known = origin.fingerprint
    if known is not None:
        found = fingerprint_of(model)
        if found.digest != known.digest:
            yield (
                f"the model has {found.num_parameters:,} parameters in {found.num_modules} modules, that of the study "
                f"{known.num_parameters:,} in {known.num_modules}"
                + ("; names, classes or shapes differ" if _equal_sizes(found, known) else "")
            )
            yield from _other_lengths(model, [unit for units in origin.units.values() for unit in units])
    rates = _dropout_rates(model)
    if origin.dropout is not None and rates and (max(rates) > 0) != (origin.dropout > 0):
        yield f"dropout is {max(rates):g}, the study had {origin.dropout:g}; its masks take memory and time"
    version, there = str(torch.__version__), origin.versions.get("torch")
    if there is not None and version != there:
        yield f"torch is {version}, the study had {there}"
    parameters = list(model.parameters())
    kinds = sorted({parameter.device.type for parameter in parameters} - {"meta"})
    if kinds and kinds != [origin.device]:
        yield f"the model is on {' and '.join(kinds)}, the study's was on {origin.device}"
    elif kinds == ["cuda"] and torch.cuda.get_device_name(parameters[0].device) != origin.device_name:
        yield f"the GPU is {torch.cuda.get_device_name(parameters[0].device)}, the study's was {origin.device_name}"
    trained = {p.dtype for p in parameters if p.requires_grad and p.is_floating_point()}
    expected = torch.bfloat16 if origin.precision == BF16_PURE else torch.float32
    if trained and trained != {expected}:
        dtypes = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in trained))
        yield f"trained weights are {dtypes}, the study trained in {origin.precision}"


def _other_lengths(model: nn.Module, units: Sequence[str]) -> Iterator[str]:
    """Where the study's units were all the blocks of a list, and that list has more of them here."""
    there: dict[str, list[int]] = {}
    for unit in units:
        holder, _, index = unit.rpartition(".")
        if index.isdigit():
            there.setdefault(holder, []).append(int(index))
    modules = dict(model.named_modules())
    for holder, indices in there.items():
        here = (
            [int(name) for name, _ in modules[holder].named_children() if name.isdigit()] if holder in modules else []
        )
        num_there, num_here = len(indices), len(here)
        were_all = sorted(indices) == list(range(num_there)) and sorted(here) == list(range(num_here))
        if were_all and num_here > num_there:
            new = f"{holder}.{num_there}".removeprefix(".") + (f"..{num_here - 1}" if num_here > num_there + 1 else "")
            yield (
                f"{holder or 'the model'} has {num_here} units, the study's had {num_there}, and no placement of the "
                f"study says anything of {new}"
            )


def _dropout_rates(model: nn.Module) -> list[float]:
    """Of dropout modules, and of the attribute by which transformers' attentions drop without one."""
    found = [module.p for module in model.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    functional = [getattr(module, "attention_dropout", None) for module in model.modules()]
    return [*found, *(rate for rate in functional if isinstance(rate, float))]


def _equal_sizes(first: Fingerprint, second: Fingerprint) -> bool:
    return (first.num_modules, first.num_parameters) == (second.num_modules, second.num_parameters)


def _lines(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        shapes = (f"{key}{tuple(p.shape)}" for key, p in module.named_parameters(recurse=False))
        yield f"{name}: {_class_name(module)} {' '.join(shapes)}"


def _class_name(module: nn.Module) -> str:
    """`fully_shard` makes a class `FSDPBlock(FSDPModule, Block)` for each that it is given."""
    kind = type(module)
    if any(base.__name__ == "FSDPModule" for base in kind.__mro__[1:]) and len(kind.__mro__) > 2:
        kind = kind.__mro__[2]
    return kind.__qualname__
