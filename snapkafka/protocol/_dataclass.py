"""`@value`: a frozen, slotted, keyword-only dataclass; and values of which the last fields are read later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make the class a value: its fields are all that it is, and it never changes."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


class InParts:
    """A value that may know its last fields only as something unread, until one of them is asked for.

    `REST`: the first of these fields. All of them have defaults.
    """

    __slots__ = ("_damaged", "_unread")
    REST = ""

    def defer(self, read: Callable[[], dict[str, Any] | None]) -> None:
        """Leave the last fields to `read`, which returns them, or None if it cannot."""
        object.__setattr__(self, "_unread", read)

    @property
    def damaged(self) -> bool:
        """Whether the last fields cannot be read; they have their defaults then."""
        getattr(self, self.REST)  # reads them
        return getattr(self, "_damaged", False)

    @classmethod
    def rest(cls) -> list[str]:
        """Return the names of the last fields."""
        names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
        return names[names.index(cls.REST) :]


def _read_field(self: Any, name: str) -> Any:
    """Return a field that was not set: only then does Python ask here. Two threads may both read it."""
    if name.startswith("_") or name not in self.__dataclass_fields__:
        raise AttributeError(f"{type(self).__name__} has no {name}")
    if (rest := self._unread()) is None:
        object.__setattr__(self, "_damaged", True)
        rest = {field: self.__dataclass_fields__[field].default for field in self.rest()}
    for field, item in rest.items():
        object.__setattr__(self, field, item)
    return rest[name]


# In the class itself it would leave no name unknown to the type checker.
InParts.__getattr__ = _read_field  # type: ignore[attr-defined]
