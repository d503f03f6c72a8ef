"""JSON in keys and values: whether text is JSON, its form for people, and what Faust writes of windows and sets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from snapkafka.assembly.schemas import FIRST_WINDOW_S, LAST_WINDOW_S, UNIX_EPOCH

SPACE: Final = " \t\n\r"
#: The first part of the keys in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2
UPDATE: Final = 15
#: Looks at every byte and makes nothing of it, so a large value needs no more memory than its text.
_checked: Final = msgspec.json.Decoder(msgspec.Raw).decode
_string: Final = msgspec.json.Decoder(str).decode


def is_json(text: str) -> bool:
    """Return whether text is exactly one value of JSON, as RFC 8259 has it."""
    try:
        _checked(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return True


def as_json(value: Any, default: Callable[[Any], Any]) -> str:
    """Write a value as JSON; `default` converts what JSON does not have.

    Raises:
        ValueError: a number is none, or a text has no UTF-8.
    """
    text = json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text.encode()
    return text


def text_of(content: str) -> str:
    """Return JSON as people read it: a string is its content."""
    return _string(content) if content.lstrip(SPACE).startswith('"') else content


def _parsed(content: str | None) -> Any:
    """Parse JSON; None also where Python cannot: a number of thousands of digits, a thousand levels."""
    try:
        return None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None


def _written(value: Any) -> str:
    """Write a value so that what is equal in Python, as in a set, is the same text."""
    if isinstance(value, float):
        if not math.isfinite(value):  # a number beyond doubles
            return '"Infinity"' if value > 0 else '"-Infinity"'
        if value.is_integer():
            return str(int(value))
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- Windows --------------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """A key in a windowed table, as JSON, and the bounds of its window, to the microsecond."""

    key: str
    start: datetime
    end: datetime


def window_of(content: str | None) -> Window | None:
    """Split the key of a windowed table, `[key, [start, end]]`; None: it has no window."""
    match _parsed(content):
        case [key, [start, end, *_], *_]:
            times = _time(start), _time(end)
            if times[0] is not None and times[1] is not None:
                return Window(_written(key), times[0], times[1])
    return None


def _time(seconds: Any) -> datetime | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if not FIRST_WINDOW_S <= seconds <= LAST_WINDOW_S:
        return None
    return UNIX_EPOCH + timedelta(microseconds=math.floor(seconds * 1_000_000 + 0.5))


# --- Sets -----------------------------------------------------------------------------------------------------------


class Operation(NamedTuple):
    """A set, by its key, and the members that an operation adds to it and removes from it: all as JSON."""

    of: str
    added: list[str]
    lost: list[str]


def operation_of(key: str | None, value: str | None) -> Operation | None:
    """Read a record in the changelog of a table of sets; None: it is unreadable."""
    if key is None or value is None:
        return None
    found = _parsed(value)
    match _parsed(key):
        case [kind, of, *_] if not isinstance(kind, bool):
            if kind == ADD:
                return Operation(_written(of), [_written(found)], [])
            if kind == DISCARD:
                return Operation(_written(of), [], [_written(found)])
            if kind == UPDATE and isinstance(found, list) and [*map(type, found[:2])] == [list, list]:
                return Operation(_written(of), [*map(_written, found[0])], [*map(_written, found[1])])
    return None
