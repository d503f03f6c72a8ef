"""JSON in keys and values: whether text is JSON, its form for people, and what Faust writes of windows and sets."""

from __future__ import annotations

import io
import json
import math
import re
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from snapkafka.assembly.schemas import FIRST_WINDOW_S, LAST_WINDOW_S, UNIX_EPOCH

#: A string, or a number that Python's JSON has and JSON has not, and that is no name of a field; none begins within a
#: string.
STRING_OR_CONSTANT: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<constant>NaN|-?Infinity)(?![ \t\n\r]*:)', re.DOTALL
)
SPACE: Final = " \t\n\r"
#: The first part of the keys in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2
UPDATE: Final = 15
#: Looks at every byte and makes nothing of it, so a large value needs no more memory than its text.
_checked: Final = msgspec.json.Decoder(msgspec.Raw).decode
_string: Final = msgspec.json.Decoder(str).decode


def json_in(text: str) -> str | None:
    """Return text that is exactly one value of JSON, as RFC 8259 has it; None: it is not.

    NaN and infinities, which Python writes where JSON has numbers, become strings.
    """
    if _is_json(text):
        return text
    quoted = with_quoted_constants(text) if "N" in text or "I" in text else text
    return quoted if quoted != text and _is_json(quoted) else None


def _is_json(text: str) -> bool:
    try:
        _checked(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return True


def with_quoted_constants(text: str) -> str:
    """Return text with NaN, Infinity and -Infinity as strings, wherever JSON has numbers."""
    written, upto = io.StringIO(), 0
    for found in STRING_OR_CONSTANT.finditer(text):
        if constant := found["constant"]:
            written.write(f'{text[upto : found.start()]}"{constant}"')
            upto = found.end()
    written.write(text[upto:])
    return written.getvalue()


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
