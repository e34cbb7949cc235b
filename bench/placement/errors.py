"""Placements that a live model cannot take."""


class UnsupportedPlacementError(RuntimeError):
    """A region that cannot be formed on this model: says which, why, and what would work."""


class WiringChangedError(RuntimeError):
    """The model's code connected the members of a span otherwise than recorded; the step must not be trusted."""


class WrongGradientsError(UnsupportedPlacementError):
    """A reentrant region that would lose gradients and say nothing."""

    kind = "gradient"
    """As an audit calls it."""
