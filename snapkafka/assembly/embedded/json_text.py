"""JSON in keys and values, exactly as Spark's expressions read it (`spark.values.json_text`), or handed over."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn

from snapkafka.assembly.decoding import STRING_OR_CONSTANT
from snapkafka.assembly.rows import UNIX_EPOCH
from snapkafka.assembly.schemas import FIRST_WINDOW_S, LAST_WINDOW_S

from .handover import HandOverError

#: A JSON string without escapes: its content is what stands between the quotes.
PLAIN_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*"')
#: A string, escapes included.
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
#: A string; its group is the name of a field, or empty.
NAME: Final = re.compile(rf"({STRING.pattern}(?=[ \t\n\r]*:))|{STRING.pattern}", re.DOTALL)
#: Beyond these, Spark's parsers have limits of their own.
DEPTH_MAX: Final = 100
DIGITS_MAX: Final = 300
NAME_MAX: Final = 50_000
#: A number as a JSON text has it, too long for parsers to agree.
LONG_NUMBER: Final = re.compile(rf"[0-9]{{{DIGITS_MAX}}}")
#: Control characters that the two write differently.
CONTROL: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")


def is_json(text: str) -> bool:
    """Return whether a text is exactly one value of JSON, as RFC 8259 has it."""
    if PLAIN_STRING.fullmatch(text):
        return True
    if LONG_NUMBER.search(text) or _depth(text) > DEPTH_MAX:
        raise HandOverError("JSON with very long numbers or many levels")
    if len(text) > NAME_MAX and any(len(name) > NAME_MAX for name in NAME.findall(text)):
        raise HandOverError("JSON with very long names")
    try:
        _CHECKING.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def with_quoted_constants(text: str) -> str:
    """Return text with NaN, Infinity and -Infinity as strings, wherever JSON has numbers."""
    if "N" not in text and "I" not in text:
        return text
    return re.sub(STRING_OR_CONSTANT, lambda found: found[1] or f'"{found[2]}"', text)


def _depth(text: str) -> int:
    """Return a bound of the levels of a text, if it is JSON."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return 0
    deepest = depth = 0
    for letter in STRING.sub("", text):
        depth += (letter in "[{") - (letter in "]}")
        deepest = max(deepest, depth)
    return deepest


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


#: Made once: `json.loads` makes one for each text.
_CHECKING: Final = json.JSONDecoder(parse_constant=_no_constant, parse_int=str, parse_float=str)


def text_of(content: str) -> str | None:
    """Return JSON as people read it: a string is its content."""
    if PLAIN_STRING.fullmatch(content):
        return content[1:-1]
    if not content.lstrip(" ").startswith('"'):
        return content
    found = json.loads(content)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise HandOverError("a JSON string with half a surrogate pair") from None
    return str(found)


def quoted(text: str) -> str:
    """Return any text as a JSON string."""
    if CONTROL.search(text):
        raise HandOverError("text with control characters")
    return json.dumps(text, ensure_ascii=False)


def parsed(content: str) -> Any:
    """Parse JSON whose parts `unparsed` can write again."""
    return json.loads(content, parse_int=_int, parse_float=_no_float, object_pairs_hook=_no_object)


def _int(text: str) -> int:
    if text == "-0":
        raise HandOverError("a negative zero in a key of a window or in a set")
    return int(text)


def _no_float(text: str) -> NoReturn:
    raise HandOverError("a number with a fraction in a key of a window or in a set")


def _no_object(pairs: list[tuple[str, Any]]) -> NoReturn:
    raise HandOverError("a JSON object in a key of a window or in a set")


def unparsed(value: Any) -> str:
    """Return a `parsed` value, or a part of it, as JSON."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise HandOverError("a JSON string with half a surrogate pair") from None
        return quoted(value)
    if isinstance(value, list):
        return f"[{','.join(map(unparsed, value))}]"
    return json.dumps(value)


def window_of(content: str) -> tuple[str, datetime, datetime] | None:
    """Split the key of a windowed table, `[key, [start, end]]`, with its bounds as times, to the microsecond; None: it
    has no window."""
    found = json.loads(content, parse_float=_Number, parse_int=_Number)
    if not (isinstance(found, list) and len(found) > 1 and isinstance(found[1], list)):
        return None
    if len(found[1]) < 2:
        return None
    start, end = found[1][:2]
    if not (isinstance(start, _Number) and isinstance(end, _Number)):
        raise HandOverError("a window whose bounds are no numbers")
    times = _time(float(start)), _time(float(end))
    if times[0] is None or times[1] is None:
        return None
    return unparsed(_whole(found[0])), times[0], times[1]


def _time(seconds: float) -> datetime | None:
    if not FIRST_WINDOW_S <= seconds <= LAST_WINDOW_S:
        return None
    return UNIX_EPOCH + timedelta(microseconds=math.floor(seconds * 1_000_000 + 0.5))


class _Number(str):
    """A number as it stands in the text."""


def _whole(value: Any) -> Any:
    """Return a value with its whole numbers as such."""
    if isinstance(value, _Number):
        if not re.fullmatch(r"-?[0-9]+", value):
            _no_float(value)
        return _int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        _no_object([])
    return value
