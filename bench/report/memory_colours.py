"""One colour a category, the same in every picture of a step's memory."""

from __future__ import annotations

COLOURS = {
    "parameters": "#3b4752",
    "buffers": "#5d6b78",
    "optimizer state": "#8d9aa6",
    "inputs": "#c3cad1",
    "gradients": "#009e73",
    "other": "#e3e3e3",
    "random state": "#f0e442",
    "boundary tensors": "#0072b2",
    "saved activations": "#7cc4ee",
    "temporaries": "#e69f00",
    "workspaces": "#cc79a7",
}
"""After Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any colour vision tell apart; what stays
for the whole step is grey. Neighbours in the stack differ in lightness too, for print without colour."""
NEUTRAL = "#b0b0b0"


def colour_of(category: str) -> str:
    return COLOURS.get(category, NEUTRAL)
