"""Masks: the file that names the values to replace, and the replacement of fields in a JSON text.

All other fields stay byte for byte, numbers of any size too. A missing field is never added.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from snapkafka.protocol.captured_snapshot import Captured

from .suppression import Text, read_toml


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

    def topics(self, captured: Captured) -> list[str]:
        """List the topics of a snapshot to which it applies."""
        tables = {
            it.topic for it in captured.changelogs if it.table == self.table and self.app in ("", it.app)
        }
        return sorted(
            tables if self.table else {it.topic for it in captured.inputs if it.topic == self.topic}
        )

    @property
    def parts(self) -> dict[str, str]:
        """The masked parts of a value, and their expressions."""
        return (
            {"value": self.value}
            if self.value
            else {f"field {path}": sql for path, sql in self.fields.items()}
        )


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

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


def fields_of(value: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a JSON object as they are written; None: it is none."""
    try:
        return _object.decode(value)
    except (ValueError, RecursionError):
        return None


def replace_field(value: bytes, path: str, new: bytes) -> bytes | None:
    """Replace each value at a path in JSON; None: it has no such field.

    A name may contain dots; of one that occurs twice the last counts. A path through an array applies to every element.

    Args:
        new: JSON.
    """
    if value.startswith(b"["):
        items = _array.decode(value)
        replaced = [replace_field(bytes(item), path, new) for item in items]
        if not any(replaced):
            return None
        return b"[%s]" % b",".join(made or bytes(item) for made, item in zip(replaced, items, strict=True))
    fields, found = fields_of(value) or {}, False
    for name, of in fields.items():
        within = path.startswith(f"{name}.")
        made = (
            new if name == path else replace_field(bytes(of), path[len(name) + 1 :], new) if within else None
        )
        if made is not None:
            fields[name], found = msgspec.Raw(made), True
    return msgspec.json.encode(fields) if found else None
