"""Masks: the file that names the values to replace, and the replacement of fields in a JSON text.

A field is replaced in place; everything else stays byte for byte, numbers of any size too. A missing field is never
added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.captured_snapshot import ChangelogCut

from .suppression import read_toml

MASK_HINT: Final = "see docs/guide/fork.md for the form of the file"
ENTRIES: Final = frozenset({"app", "table", "topic", "value", "fields", "headers"})
#: What a mask may do with all headers of a record.
DROP: Final = "drop"
KEEP: Final = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A replacement for values of a table or topic. `value`: an expression for the whole of it; `fields`: one for each
    field of a JSON object, whose name may have dots. `headers`: "drop" or "keep"; empty: records with headers are
    refused."""

    app: str = ""
    table: str = ""
    topic: str = ""
    value: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    headers: str = ""

    def __str__(self) -> str:
        return (
            f"topic {self.topic}"
            if self.topic
            else f"table {self.table}" + (f" of {self.app}" * bool(self.app))
        )

    def covers(self, cut: ChangelogCut) -> bool:
        """Return whether it applies to the table of this changelog."""
        return bool(self.table) and self.table == cut.table and self.app in ("", cut.app)


def read_masks(path: str) -> tuple[Mask, ...]:
    """Read a file of masks.

    Raises:
        BadInputError: it cannot be read, or a mask has no target or no value.
    """
    found = read_toml(path)
    masks = found.get("mask")
    if found.keys() != {"mask"} or not isinstance(masks, list):
        raise BadInputError(f"{path} must have one or more [[mask]], and nothing else", hint=MASK_HINT)
    return tuple(_mask(f"{path}: mask {number}", it) for number, it in enumerate(masks, 1))


def _mask(what: str, it: Mapping[str, Any]) -> Mask:
    if unknown := sorted(it.keys() - ENTRIES):
        raise BadInputError(f"{what} has {unknown[0]}", hint=MASK_HINT)
    if not all(isinstance(text, str) and text for text in _texts(it)):
        raise BadInputError(f"{what} has an entry that is not a text", hint=MASK_HINT)
    if bool(it.get("table")) == bool(it.get("topic")):
        raise BadInputError(f"{what} must name a table or a topic", hint=MASK_HINT)
    headers = it.get("headers", "")
    if headers and not it.get("topic"):
        raise BadInputError(f"{what} has headers: rows of a table have none", hint=MASK_HINT)
    if headers not in ("", DROP, KEEP):
        raise BadInputError(f'{what}: headers are "{DROP}" or "{KEEP}"', hint=MASK_HINT)
    given = {name for name in ("value", "fields", "headers") if it.get(name)}
    if not given or {"value", "fields"} <= given:
        raise BadInputError(f"{what} must have a value or fields", hint=MASK_HINT)
    return Mask(**it)


def _texts(it: Mapping[str, Any]) -> Iterator[Any]:
    for name, entry in it.items():
        if name == "fields" and isinstance(entry, dict):
            yield from entry.values()
        elif name == "fields":
            yield None
        else:
            yield entry


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
