"""Content of tensors as one number: equal bits give equal numbers, wherever the tensor lies."""

from __future__ import annotations

import functools

import torch

CHUNK_BYTES = 2**20
"""A digest works through a tensor in pieces, so that it allocates little beside it."""
_WORD = torch.int64
_PRIME = 0x9E3779B1


@torch.no_grad()
def digest(tensor: torch.Tensor) -> int:
    """64 bits over the bits of the content (not shape or dtype): a sum of words, each weighted by an odd number of its
    own, so that swapped, repeated and negated values show. Not for adversaries."""
    parts: list[torch.Tensor] = []
    flat = plain(tensor).contiguous().reshape(-1)
    if flat.numel() == 0:
        return 0
    raw = (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).view(torch.uint8)
    for start in range(0, raw.numel(), CHUNK_BYTES):
        piece = raw[start : start + CHUNK_BYTES]
        words = piece.clone().view(_WORD) if piece.numel() % 8 == 0 else piece.to(_WORD)
        # The shift lets a high bit weigh on lower ones: two flipped signs would cancel out in the sum.
        parts.append((words >> 29).bitwise_xor_(words).mul_(_weights(str(words.device))[: words.numel()]).sum())
    return int(sum(int(part) * (2 * index + 1) for index, part in enumerate(parts))) & (2**64 - 1)


@functools.cache
def _weights(device: str) -> torch.Tensor:
    weights = torch.arange(1, CHUNK_BYTES + 1, dtype=_WORD, device=device).mul_(2 * _PRIME)
    return weights.bitwise_xor_(weights >> 13).bitwise_or_(1)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A strided tensor with the same content."""
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.coalesce().to_dense()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return tensor.resolve_conj().resolve_neg()


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal shape, dtype and bits; NaN equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    if not (one.is_floating_point() or one.is_complex()):
        return False
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def described(tensor: torch.Tensor) -> str:
    """`float32[8, 64], mean 0.0123, norm 3.45`."""
    head = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if tensor.numel() == 0:
        return head
    values = plain(tensor).to(torch.float64)
    return (
        f"{head}, mean {values.mean().item():.6g}, norm {values.norm().item():.6g}" if not values.is_complex() else head
    )


def norm_of(tensor: torch.Tensor) -> float:
    return float(plain(tensor).to(torch.complex128 if tensor.is_complex() else torch.float64).norm())
