"""One colour a category, the same in every picture of a step's memory."""

from __future__ import annotations

from bench.trace import categories

COLOURS = {
    categories.PARAMETERS: "#3b4752",
    categories.BUFFERS: "#5d6b78",
    categories.OPTIMIZER_STATES: "#8d9aa6",
    categories.INPUTS: "#c3cad1",
    categories.GRADIENTS: "#009e73",
    categories.OTHER: "#e3e3e3",
    categories.RANDOM_STATE: "#f0e442",
    categories.BOUNDARY: "#0072b2",
    categories.SAVED: "#7cc4ee",
    categories.TEMPORARY: "#e69f00",
    categories.WORKSPACES: "#cc79a7",
}
"""After Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any colour vision tell apart; what stays
for the whole step is grey. Neighbours in the stack differ in lightness too, for print without colour."""
