"""Masks: the file that names the values to replace, and the replacement of fields in a JSON text.

A field is replaced in place; everything else stays byte for byte, numbers of any size too. A missing field is never
added.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal

import msgspec

from snapkafka.protocol.captured_snapshot import ChangelogCut

from .suppression import Text, read_toml

#: What a mask may do with all headers of a record.
DROP: Final = "drop"
KEEP: Final = "keep"


class Mask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replacement for values of a table or topic. `value`: an expression for the whole of it; `fields`: one for each
    field of a JSON object, whose name may have dots. `headers`: empty: records with headers are refused."""

    app: str = ""
    table: str = ""
    topic: str = ""
    value: str = ""
    fields: dict[Text, Text] = {}
    headers: Literal["", "drop", "keep"] = ""

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.topic):
            raise ValueError("a mask must name a table or a topic")
        if self.headers and not self.topic:
            raise ValueError("rows of a table have no headers")
        if bool(self.value) == bool(self.fields) and (self.value or not self.headers):
            raise ValueError("a mask must have a value or fields")

    def __str__(self) -> str:
        return (
            f"topic {self.topic}"
            if self.topic
            else f"table {self.table}" + (f" of {self.app}" * bool(self.app))
        )

    def covers(self, cut: ChangelogCut) -> bool:
        """Return whether it applies to the table of this changelog."""
        return bool(self.table) and self.table == cut.table and self.app in ("", cut.app)


class _Masks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mask: tuple[Mask, ...]

    def __post_init__(self) -> None:
        if not self.mask:
            raise ValueError("it has no [[mask]]")


def read_masks(path: str) -> tuple[Mask, ...]:
    """Read a file of masks.

    Raises:
        BadInputError: it cannot be read, or a mask has no target or no value.
    """
    return read_toml(path, _Masks).mask


# --- Fields of JSON --------------------------------------------------------------------------------------------------

_white: Final = re.compile(r"[ \t\n\r]*")
_decoder: Final = json.JSONDecoder()


def replace_field(text: str, path: str, new: str) -> str | None:
    """Replace each value at a path in a JSON object; None: it has no such field.

    A name may contain dots, or occur twice; a path through an array applies to every element.

    Args:
        text: a JSON object.
        new: JSON.
    """
    spans: list[tuple[int, int]] = []
    _find(text, _skip(text, 0), path, spans)
    if not spans:
        return None
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _find(text: str, at: int, path: str, spans: list[tuple[int, int]]) -> int:
    """Collect the spans of values at a path below the value that begins here; return the end of this value."""
    if text[at] == "{":
        return _find_in_object(text, at, path, spans)
    if text[at] == "[":
        at = _skip(text, at + 1)
        while text[at] != "]":
            at = _skip(text, _find(text, at, path, spans))
            at = _skip(text, at + 1) if text[at] == "," else at
        return at + 1
    return _decoder.raw_decode(text, at)[1]


def _find_in_object(text: str, at: int, path: str, spans: list[tuple[int, int]]) -> int:
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _decoder.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        if path.startswith(f"{name}."):
            end = _find(text, start, path[len(name) + 1 :], spans)
        else:
            end = _decoder.raw_decode(text, start)[1]
            if path == name:
                spans.append((start, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return at + 1


def _skip(text: str, at: int) -> int:
    found = _white.match(text, at)
    return found.end() if found else at
