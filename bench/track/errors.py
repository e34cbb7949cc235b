"""Errors of publishing."""


class TrackError(RuntimeError):
    """A store that cannot take a study in: says what happened, where, and what to do. Results are never touched."""
