"""transformers 5's `activation_checkpointing_enable(every_n_layers=k)` (`gradient_checkpointing_enable` until 5).

It numbers the model's `GradientCheckpointingLayer`s in the order in which `modules()` gives them, over encoder and
decoder alike, and checkpoints each whose number k divides, non-reentrant. Layers may lie in each other (Swin's stages
hold its blocks): then regions nest, as they do there.
"""

from __future__ import annotations

import importlib.util

from bench.peers.peer import PeerRefusedError, StepFacts
from bench.placement.types import Placement, Region

LIBRARY = "transformers"


def every_n_layers(facts: StepFacts, k: int) -> Placement:
    """Raises PeerRefusedError: no module of the model is such a layer, where transformers itself raises."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise PeerRefusedError("transformers is not installed")
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [path for path, module in facts.model.named_modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise PeerRefusedError(f"{type(facts.model).__name__} has no GradientCheckpointingLayer of transformers")
    return Placement(tuple(Region(units=(layer,)) for layer in layers[::k]))
