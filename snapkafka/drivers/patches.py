"""Patches that can be undone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced, and what was there before."""

    def __init__(self) -> None:
        self._theirs: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, ours: Any) -> None:
        """Replace an attribute of a class, a module or an object."""
        self._theirs.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, ours)

    def before(self, owner: Any, name: str, check: Callable[..., None]) -> None:
        """Call a check before a function."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def checked(*args: Any, **kwargs: Any) -> Any:
            check(*args, **kwargs)
            return original(*args, **kwargs)

        self.put(owner, name, checked)

    def undo(self) -> None:
        """Put everything back."""
        while self._theirs:
            owner, name, original = self._theirs.pop()
            setattr(owner, name, original) if original is not None else delattr(owner, name)
