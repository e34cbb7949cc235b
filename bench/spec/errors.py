"""Errors in what was asked for."""


class SpecError(ValueError):
    """A request that cannot be carried out as written: names the option, what is wrong, and what to do."""
