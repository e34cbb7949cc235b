"""What ops do on a GPU that is not there, printed as JSON; test_device.py runs it in a process of its own.

The device is registered for good, and the interpreter's clean-up was seen to abort, so the process ends without it.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from bench.target.device import register_device
from bench.target.reference import load_target


class Ops(TorchDispatchMode):
    """Names of ops in order, with the dtypes and shapes of what they hand out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[int, ...], str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, (tuple, list)) else result
        if isinstance(first, torch.Tensor):
            self.seen.append((func._schema.name.removeprefix("aten::"), tuple(first.shape), name_of(first.dtype)))
        return result

    def count(self, name: str, shape: tuple[int, ...] | None = None) -> int:
        return sum(op == name and shape in (None, found) for op, found, _ in self.seen)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtypes_under_autocast(device: torch.device) -> dict[str, str]:
    x, weight = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    half, long = x.to(torch.bfloat16), torch.zeros(8, dtype=torch.long, device=device)
    image, kernel = torch.randn(1, 4, 8, 8, device=device), torch.randn(4, 4, 3, 3, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        made = {
            "linear": functional.linear(x, weight),
            "matmul": x @ weight,
            "einsum": torch.einsum("ij,jk->ik", x, weight),
            "conv2d": functional.conv2d(image, kernel),
            "layer_norm": functional.layer_norm(half, (8,)),
            "softmax": functional.softmax(half, dim=-1),
            "cross_entropy": functional.cross_entropy(half, long),
            "pow": half.pow(2),
            "sum": half.sum(),
            "sum to bf16": half.sum(dtype=torch.bfloat16),
            "norm": torch.ops.aten.norm.Scalar(half),
            "relu": functional.relu(half),
            "add": half + x,
            "addcmul of both": torch.addcmul(half, x, half),
            "addcmul of bf16": torch.addcmul(half, half, half),
            "index": long + 1,
        }
    return {name: name_of(tensor.dtype) for name, tensor in made.items()}


def refused_under_autocast(device: torch.device) -> str:
    x = torch.rand(4, device=device)
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            functional.binary_cross_entropy(x, x)
    except RuntimeError as error:
        return str(error)
    return ""


def weight_casts(device: torch.device) -> dict[str, int]:
    """Casts of an 8 × 8 weight that two calls share; inputs are 4 × 8."""
    layer = nn.Linear(8, 8, bias=False, device=device)
    x = torch.randn(4, 8, device=device)

    def twice(x: torch.Tensor) -> torch.Tensor:
        return layer(layer(x))

    def casts(run: Any) -> int:
        with Ops() as ops:
            run()
        return ops.count("_to_copy", (8, 8))

    def plain(cache_enabled: bool = True) -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=cache_enabled):
            return twice(x).float().sum()

    def replayed() -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            calls = [checkpoint(twice, x, use_reentrant=False) for _ in range(2)]
        return (calls[0].float() + calls[1].float()).sum()

    def frozen() -> torch.Tensor:
        with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
            layer.weight.requires_grad_(False)
            made = twice(x)
            layer.weight.requires_grad_(True)
        return made

    return {
        "forward": casts(plain),
        "two forwards": casts(lambda: (plain(), plain())),
        "without cache": casts(lambda: plain(cache_enabled=False)),
        "frozen weight": casts(frozen),
        # The gradient, which comes in bf16, has the weight's shape and is cast as well, once.
        "forward and backward": casts(lambda: plain().backward()),
        "forward and replay": casts(lambda: replayed().backward()),
    }


def ops_of_replay(device: torch.device) -> dict[str, Any]:
    """A region with dropout, attention and a norm: its replay runs what its first pass ran."""
    norm, projection = nn.LayerNorm(64, device=device), nn.Linear(64, 192, device=device)

    def region(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (1, 64)).transpose(1, 2) for t in projection(norm(x)).chunk(3, -1))
        return functional.dropout(functional.scaled_dot_product_attention(q, k, v, is_causal=True), 0.1)

    x = torch.randn(2, 128, 64, device=device, requires_grad=True)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        with Ops() as first:
            made = checkpoint(region, x, use_reentrant=False)
        loss = made.float().sum()
    with Ops() as second:
        loss.backward()
    names = [name for name, _, _ in first.seen]
    return {
        "first": names,
        "replayed": [name for name, _, _ in second.seen],
        "dtypes": {name: dtype for name, _, dtype in first.seen},
    }


def dropout_mask(device: torch.device) -> str:
    x = torch.randn(4, 4, device=device, requires_grad=True)
    made = functional.dropout(x, 0.5)
    return f"{type(made.grad_fn).__name__} {name_of(made.grad_fn._saved_result1.dtype)}"


def half_losses(device: torch.device) -> dict[str, list[str]]:
    """Ops of a log_softmax to fp32."""
    found = {}
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(4, 8, device=device).to(dtype)
        with Ops() as ops:
            functional.log_softmax(x, -1, dtype=torch.float32)
        found[name_of(dtype)] = [name for name, _, _ in ops.seen]
    return found


def saved_by_norm(device: torch.device) -> list[str]:
    x = torch.randn(4, 8, device=device).to(torch.bfloat16)
    weight = torch.ones(8, device=device, dtype=torch.bfloat16)
    return [name_of(t.dtype) for t in torch.ops.aten.native_layer_norm(x, [8], weight, weight, 1e-5)]


def random_state(device: torch.device) -> dict[str, Any]:
    state = torch.get_device_module(device).get_rng_state()
    return {"device": state.device.type, "bytes": state.nbytes}


def main() -> None:
    device = register_device(load_target("h200"))
    with FakeTensorMode(allow_non_fake_inputs=True):
        facts = {
            "dtypes": dtypes_under_autocast(device),
            "refused": refused_under_autocast(device),
            "casts": weight_casts(device),
            "replay": ops_of_replay(device),
            "dropout": dropout_mask(device),
            "log_softmax": half_losses(device),
            "norm": saved_by_norm(device),
            "random_state": random_state(device),
        }
    try:
        register_device(load_target("t4"))
    except RuntimeError as error:
        facts["second target"] = str(error)
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
