"""What a peer's method cannot do."""

from __future__ import annotations


class OverBudgetError(ValueError):
    """The method has no plan within the budget, by its own model of memory: says the least it could reach."""
