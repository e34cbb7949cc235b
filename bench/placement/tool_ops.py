"""What other tools keep in a region, by name: plain Python, for those who place it and those who say it."""

from __future__ import annotations

from bench.placement.types import Options

WITHOUT_EARLY_STOP = Options(early_stop=False)
HALVED_OPS = ("mm", "linear")
"""torchtitan keeps every second. Each counts for itself here, both together there; a device runs one of them."""
SAVED_OPS = (
    "_efficient_attention_forward",
    "_flash_attention_forward",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_mm",
    "addmm",
    "bmm",
    "convolution",
    "convolution_backward",
    "linear",
    "max",
    "mm",
    "topk",
    "upsample_bilinear2d",
)
"""torchtitan's `_get_default_save_ops()` on torch 2.13; a test holds it against torchtitan where that is installed. The
CPU's flash attention is not in it: on a CPU attention is replayed."""
PROJECTION_OPS = frozenset({"mm", "addmm", "linear"})
"""Megatron's core attention keeps their outputs."""
