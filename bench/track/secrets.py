"""Passwords stay in the environment or the address of a store: never in records, runs, logs or errors."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

SECRET_VARIABLES = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD")
SHORTEST = 4
"""Characters of a secret that is starred out wherever it stands; a shorter one would star out half a sentence."""
# To the last @ that could end it: a password with an unquoted slash is no valid address, and is told in an error.
IN_ADDRESS = re.compile(r"(://[^:@/\s]*):(\S*)@")
IN_QUERY = re.compile(r"([?&](?:ssl)?password=)([^&\s'\"]*)", re.IGNORECASE)


def without_password(address: str) -> str:
    """`address` of a store with the password in it starred out."""
    return IN_QUERY.sub(r"\1***", IN_ADDRESS.sub(r"\1:***@", address))


def without_secrets(text: str, address: str) -> str:
    """`text`, such as an error of a library, without the passwords of `address` and of the environment."""
    found = [match[2] for pattern in (IN_ADDRESS, IN_QUERY) for match in pattern.finditer(address)]
    found += [unquote(secret) for secret in found] + [os.environ.get(name, "") for name in SECRET_VARIABLES]
    for secret in sorted(filter(None, found), key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, "***")
    return without_password(text)
