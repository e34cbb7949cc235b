"""The net that the audit's cases are put into. `WIDTH` is the size of everything's last axis."""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 16
BATCH = 8


class Stack(nn.Module):
    """Blocks one after another and a scalar loss."""

    def __init__(self, *blocks: nn.Module, trains_input: bool = True, amp: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.trains_input = trains_input
        self.amp = amp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.amp or torch.is_autocast_enabled("cpu")):
            x = x.detach().requires_grad_(self.trains_input)
            for block in self.blocks:
                x = self.call(block, x)
            return x.float().square().mean()

    def call(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        out = block(x)
        return out if isinstance(out, torch.Tensor) else out[0] + out[1]


def feed_forward(*inside: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), *inside, nn.Linear(2 * WIDTH, WIDTH))


class Block(nn.Module):
    """A residual block; what it computes can be changed by `twist(block, x) -> x`."""

    def __init__(self, *inside: nn.Module) -> None:
        super().__init__()
        self.norm, self.body = nn.LayerNorm(WIDTH), feed_forward(*inside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.body(self.twist(x)))

    def twist(self, x: torch.Tensor) -> torch.Tensor:
        return x
