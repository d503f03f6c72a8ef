"""Records after a fault of ours: handled as without us, less our header and markers.

This module uses nothing that may have failed, so it repeats a part of `wire`.
"""

from __future__ import annotations

from typing import Any, Final

NAME: Final = "_sk"
MARKER_KEYS: Final = b"_sk:"


def is_marker(message: Any) -> bool:
    """Return whether a message is a marker, which no agent may get."""
    key = message.key
    return message.value is None and isinstance(key, bytes) and key.startswith(MARKER_KEYS)


def without_ours(headers: Any) -> Any:
    """Return the headers without ours, in their type; the same object if ours is not among them."""
    if not headers:
        return headers
    pairs = list(headers.items() if hasattr(headers, "items") else headers)
    rest = [pair for pair in pairs if pair[0] != NAME]
    if len(rest) == len(pairs):
        return headers
    return rest if type(headers) is list else type(headers)(rest)
