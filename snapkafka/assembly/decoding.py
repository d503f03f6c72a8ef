"""The decoding of keys and values that are neither JSON nor text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .schema_registry import Registry


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
