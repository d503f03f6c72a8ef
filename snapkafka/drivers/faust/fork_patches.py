"""The patches of a process that is a part of a fork, and its checks of names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from snapkafka.errors import ForkIsolationError
from snapkafka.protocol.forking import of_fork


class Patches:
    """Patches that can be undone.

    Args:
        fork: its name.
    """

    def __init__(self, fork: str) -> None:
        self.fork = fork
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute until `remove`."""
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, replacement)

    def before(self, owner: Any, name: str, check: Callable[..., None]) -> None:
        """Call a check before a function."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def checked(*args: Any, **kwargs: Any) -> Any:
            check(*args, **kwargs)
            return original(*args, **kwargs)

        self.replace(owner, name, checked)

    def put_back(self) -> None:
        """Undo all patches."""
        for owner, name, original in reversed(self._replaced):
            setattr(owner, name, original) if original is not None else delattr(owner, name)
        self._replaced.clear()

    def check(self, what: str, topics: Iterable[str]) -> None:
        """Refuse topics that are not the fork's.

        Raises:
            ForkIsolationError: names the first one.
        """
        for topic in topics:
            if not of_fork(self.fork, topic):
                raise ForkIsolationError(f"topic {topic} is not of fork {self.fork}: refused to {what} it")
