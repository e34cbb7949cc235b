"""Errors of publishing."""


class TrackError(RuntimeError):
    """A store that cannot take a study in: says what happened, where, and what to do. Results are never touched."""


class UnfitStudyError(TrackError):
    """A study directory that is not published: names the file, what it holds that no study of ours does, what to do."""
