"""The options by which keys and values are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .registry import Registry

#: Codecs (Faust's names) that need nothing of the app; each may have `|binary` behind it, Faust's name for base64.
JSON_CODECS: Final = ("json",)
TEXT_CODECS: Final = ("raw", "text", "")
BASE64: Final = "|binary"
#: The byte before the number of a schema, and the bytes of both.
MAGIC: Final = b"\x00"
PREFIX_BYTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The decoding of keys and values that are neither JSON nor text.

    Args:
        codecs: modules to import where the data is, so that they register their codecs with Faust.
        unpickle: whether to load pickles, which executes whatever they contain.
        avro: schemas as JSON, by `<topic>-key`, `<topic>-value`, or the number in a schema registry: then the bytes
            begin with a zero byte and that number.
        registry: the source of schemas of other numbers.
    """

    codecs: tuple[str, ...] = ()
    unpickle: bool = False
    avro: Mapping[str, str] = field(default_factory=dict)
    registry: Registry | None = None


PLAIN: Final = Decoding()


def normal_name(codec: str) -> str:
    """Return a codec's name with the base64 last: `binary` alone is text in it."""
    return f"raw{BASE64}" if codec == "binary" else codec


def number_in(raw: bytes | None) -> int | None:
    """Return the number of a schema with which bytes begin; None: they do not."""
    if raw is None or len(raw) < PREFIX_BYTES or not raw.startswith(MAGIC):
        return None
    return int.from_bytes(raw[1:PREFIX_BYTES], "big")
