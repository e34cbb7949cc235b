"""The closed set of outcomes of a placement in a study."""

OUTCOMES = (
    "ok",
    "oom",
    "timeout",
    "crashed",
    "hung",
    "error",
    "leaking",
    "unstable",
    "no-effect",
    "invalid",
    "unsupported",
)

ANSWERS = ("ok", "no-effect", "invalid")
"""Outcomes that say what a placement does, whatever that is; any other leaves the question open."""
