"""Small models and placements drawn at random: what the fast way, the fake step and the real one must agree on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.placement.grammar import parse_placement
from bench.placement.types import Placement, PlacementError

WIDTH, VOCABULARY = 16, 11
functional = nn.functional


class Mlp(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.norm = draw.choice([nn.LayerNorm, nn.RMSNorm, lambda _: nn.Identity()])(WIDTH)
        inner = draw.choice([8, 32, 48])
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)
        self.act = draw.choice([functional.gelu, functional.silu, torch.tanh, torch.relu_])
        self.drop = nn.Dropout(draw.choice([0.0, 0.1]))
        self.is_residual = draw.random() < 0.7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.drop(self.down(self.act(self.up(self.norm(x)))))
        return x + y if self.is_residual else y


class Attention(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kind = draw.choice(["eager", "fused", "causal"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(-2, -3) for part in self.qkv(x).chunk(3, -1))
        if self.kind == "eager":
            y = functional.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.1) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.kind == "causal")
        return x + self.out(y.transpose(-2, -3).flatten(-2))


class Conv(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm = draw.choice([nn.BatchNorm1d, lambda width: nn.GroupNorm(2, width)])(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.norm(self.conv(x.transpose(1, 2))), inplace=True).transpose(1, 2) + x


class Twice(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.inner = Mlp(draw)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.scale * self.inner(x))  # type: ignore[no-any-return]


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"a": self.a(x), "b": (torch.sigmoid(self.b(x)), None)}


class Joined(nn.Module):
    def __init__(self, _: random.Random) -> None:
        super().__init__()
        self.pair, self.both = Pair(), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.pair(x)
        return self.both(torch.cat([made["a"] * made["b"][0], x], -1))  # type: ignore[no-any-return]


class InPlace(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.adds = draw.random() < 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y = y.mul(2).add_(x) if self.adds else y.relu_()
        return y.masked_fill(y > 3, 0.0)


class Detached(nn.Module):
    def __init__(self, _: random.Random) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight = self.linear(x).mean(-1, keepdim=True)
        return self.linear(x) * weight + x.detach().cumsum(1)


class Chosen(nn.Module):
    """Positions, views of one tensor, a sort."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(7, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.which = draw.randrange(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.linear(x).split(WIDTH, -1)
        if self.which == 0:
            return a * torch.sigmoid(b) + self.table(torch.arange(x.shape[1], device=x.device) % 7)
        return b.sort(-1)[0] if self.which == 1 else a.contiguous() + x[:, :1].expand_as(x)


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, x * 2)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        _, doubled = ctx.saved_tensors
        return gradient * doubled


class Odd(nn.Module):
    """A function with tensors of its own, complex numbers conjugated lazily, a checkpoint of the model's own."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.linear, self.which = nn.Linear(WIDTH, WIDTH), draw.randrange(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if self.which == 0:
            return Keeping.apply(y)  # type: ignore[no-any-return, no-untyped-call]
        if self.which == 1:
            return checkpoint(lambda t: t.sin().exp(), y, use_reentrant=False)  # type: ignore[no-any-return]
        spectrum = torch.fft.rfft(y, dim=-1)
        return torch.fft.irfft(spectrum * spectrum.conj(), n=WIDTH, dim=-1)


class Long(nn.Module):
    """Local names hold tensors for long, or not."""

    def __init__(self, _: random.Random) -> None:
        super().__init__()
        self.up, self.down, self.last = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        grown = hidden.exp()
        narrow = self.down(grown.sin())
        last = self.last(narrow)
        del grown
        return last + hidden[..., :WIDTH] * 0.5


class Nested(nn.Module):
    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(draw.choice(KINDS[:-1])(draw) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


KINDS: tuple[Callable[[random.Random], nn.Module], ...] = (
    Mlp,
    Attention,
    Conv,
    Twice,
    Joined,
    InPlace,
    Detached,
    Chosen,
    Odd,
    Long,
    Nested,
)


class RandomModel(nn.Module):
    """Returns the loss of a batch of token numbers, shape (rows, length)."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(draw.choice(KINDS)(draw) for _ in range(draw.randint(2, 5)))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.is_classifier, self.skips = draw.random() < 0.5, draw.random() < 0.3
        if draw.random() < 0.5:
            self.head.weight = self.embedding.weight
        if draw.random() < 0.2:
            for parameter in (*self.blocks[0].parameters(), self.embedding.weight):
                parameter.requires_grad_(False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        first = x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x + first if self.skips else x)
        if self.is_classifier:
            return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        return logits.square().mean()  # type: ignore[no-any-return]


def random_batches(seed: int) -> list[torch.Tensor]:
    draw = random.Random(seed)
    num = draw.choice([1, 1, 2])
    return [torch.randint(VOCABULARY, (draw.choice([2, 4]), draw.choice([6, 12]))) for _ in range(num)]


def random_placement(draw: random.Random, model: RandomModel) -> Placement:
    """Units, spans, submodules and nested regions, with policies and options."""
    last = len(model.blocks) - 1
    below = [name for name, _ in model.blocks.named_modules(prefix="blocks") if name.count(".") > 1]
    while True:
        items = []
        for _ in range(draw.choice([1, 1, 2, 3])):
            first, end = sorted(draw.choices(range(last + 1), k=2))
            span = f"blocks.{first}..{end}" if first < end else f"blocks.{first}"
            where = draw.choice([f"blocks.{first}", f"blocks.0..{last}:each", span, draw.choice(below or [span])])
            policy = draw.choice([*[""] * 4, *(f":keep.{ops}" for ops in POLICIES)])
            option = draw.choice([*[""] * 4, "@no-rng", "@no-early-stop", "@no-determinism-check"])
            items.append(where + policy + option)
        try:
            return parse_placement("+".join(items))
        except PlacementError:  # regions that cross
            continue


POLICIES = ("matmul", "matmul%2", "addmm/1", "attention", "native_layer_norm", "gelu", "conv")
