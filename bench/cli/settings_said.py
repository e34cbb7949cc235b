"""A placement in another tool's settings, as `recommend` and `export` print it."""

from __future__ import annotations

from bench.decide import Settings


def settings_text(settings: Settings) -> str:
    """`in megatron: …`, or why not."""
    if not settings.lines:
        return f"in {settings.format} it cannot be said: {settings.reason}"
    lines = [f"in {settings.format}:", *(f"    {line}" for line in settings.lines)]
    return "\n".join(lines + [f"    ({note})" for note in settings.notes])
