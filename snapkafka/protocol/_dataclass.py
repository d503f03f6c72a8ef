"""`@value`: a frozen, slotted, keyword-only dataclass that takes less than half the time to define.

Most of the 800 us that `dataclasses` takes per class on Python 3.11 go into compiling methods that differ only in the
names of the fields. A service loads nearly fifty of these classes when it starts, so `==`, `hash` and `repr` are
written once, here, and behave as those of `dataclasses` do. No hot path compares values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")


def _equal(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _fields_of(self) == _fields_of(other)


def _hashed(self: Any) -> int:
    return hash(_fields_of(self))


def _shown(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{self.__class__.__qualname__}({shown})"


def _fields_of(one: Any) -> tuple[Any, ...]:
    return tuple([getattr(one, name) for name in one.__dataclass_fields__])


SHARED: Final = {"__eq__": _equal, "__hash__": _hashed, "__repr__": _shown}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make the class a value: its fields are all that it is, and it never changes."""
    made = dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(cls)
    for name, method in SHARED.items():
        setattr(made, name, method)
    return made


class InParts:
    """A value that may know its last fields only as something unread, until one of them is asked for.

    `REST`: the first of these fields. All of them have defaults.
    """

    __slots__ = ("_damaged", "_unread")
    REST = ""

    def __init_subclass__(cls, *, rest: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if rest:
            cls.REST = rest

    def defer(self, read: Callable[[Any], bool]) -> None:
        """Leave the last fields to `read`, which sets them, or returns False if it cannot."""
        object.__setattr__(self, "_unread", read)

    @property
    def damaged(self) -> bool:
        """Whether the last fields cannot be read; they have their defaults then."""
        self._read()
        return getattr(self, "_damaged", False)

    def _read(self) -> None:
        read = getattr(self, "_unread", None)
        if read is None:
            return
        if not read(self):
            object.__setattr__(self, "_damaged", True)
            for name in self.rest():
                object.__setattr__(self, name, self.__dataclass_fields__[name].default)  # type: ignore[attr-defined]
        object.__setattr__(self, "_unread", None)  # last: another thread that asks meanwhile reads it, too

    @classmethod
    def rest(cls) -> list[str]:
        """Return the names of the last fields."""
        names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
        return names[names.index(cls.REST) :]


def _read_field(self: Any, name: str) -> Any:
    """Return a field that was not set: only then does Python ask here."""
    if name.startswith("_") or name not in self.__dataclass_fields__:
        raise AttributeError(f"{type(self).__name__} has no {name}")
    self._read()
    return object.__getattribute__(self, name)


# In the class itself it would leave no name unknown to the type checker.
InParts.__getattr__ = _read_field  # type: ignore[attr-defined]
