"""What replaces functions of Faust and of aiokafka: with ours after it, or so that it can be undone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def contained(what: str) -> Callable[[F], F]:
    """Contain the faults of a method, of a driver or of a part with a `_driver`: it stands down (R15)."""

    def contain(method: F) -> F:
        @functools.wraps(method)
        def within(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                getattr(self, "_driver", self).stand_down(what, error)
            return None

        return cast(F, within)

    return contain


def after(host: Any, owner: Any, name: str, note: Callable[..., object], what: str) -> None:
    """Call `note` after a function of an object, with its result first. A fault in it makes `host` stand down, and the
    result is the function's all the same (R15)."""
    original = getattr(owner, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        try:
            note(found, *args, **kwargs)
        except Exception as error:
            host.stand_down(what, error)
        return found

    setattr(owner, name, noted)


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
        while self._theirs:
            owner, name, original = self._theirs.pop()
            setattr(owner, name, original) if original is not None else delattr(owner, name)
