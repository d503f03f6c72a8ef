"""Methods of a client that are replaced while it is in a participant."""

from __future__ import annotations

from typing import Any


class Patches:
    """The methods that were replaced, and what was there before."""

    def __init__(self) -> None:
        self._theirs: list[tuple[Any, str, Any]] = []

    def put(self, client: Any, name: str, ours: Any) -> None:
        """Replace a method."""
        self._theirs.append((client, name, getattr(client, name)))
        setattr(client, name, ours)

    def undo(self) -> None:
        """Give the clients their own methods back."""
        while self._theirs:
            setattr(*self._theirs.pop())
