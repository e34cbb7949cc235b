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
