"""Keys and values as text: bytes are decoded by the codec of their table.

Whatever cannot be decoded stays bytes, with the reason; no value ends an assembly.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from .avro import AVRO, JSON, Schema, reader_of
from .json_text import Operation, as_json, is_json, operation_of, text_of, window_of
from .registry import Registry

#: Codecs (Faust's names) that need nothing of the app; each may have `|binary` behind it, Faust's name for base64.
JSON_CODECS: Final = ("json",)
TEXT_CODECS: Final = ("raw", "text", "")
BASE64: Final = "|binary"
#: The byte before the number of a schema, and the bytes of both.
MAGIC: Final = b"\x00"
PREFIX_BYTES: Final = 5
#: Codecs that execute what they read.
PICKLES: Final = r"(^|\|)(raw_)?pickle($|\|)"
REFUSED: Final = " is not decoded: pickles execute code (the option unpickle)"


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


class Form(NamedTuple):
    """A key or a value: as JSON, as text, and why it is neither."""

    json: str | None = None
    text: str | None = None
    why: str | None = None


class Texts(NamedTuple):
    """Columns of a row: the texts of key and value, why one of them is none, and the window of the key."""

    key: str | None
    value: str | None
    why_undecoded: str | None
    window_start: datetime | None = None
    window_end: datetime | None = None


#: The codecs of a key and a value; None: unknown, and the bytes are taken for text that may be JSON.
Codecs = tuple[str | None, str | None]
Raws = Sequence[bytes | None]
NOTHING: Final = Form()


class Decoder:
    """The decoding of keys and values of one snapshot."""

    def __init__(self, decoding: Decoding = PLAIN) -> None:
        self._decoding = decoding
        self._readers: dict[Schema, Callable[[bytes], str | None]] = {}

    def texts(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        codecs: Codecs,
        *,
        windowed: bool = False,
        unread: bool = False,
    ) -> Texts:
        """Decode a key and a value.

        Args:
            topic: selects Avro schemas.
            windowed: the key has a window.
            unread: they are an operation of a set that `operation` does not read.
        """
        k, v = self.form(key, codecs[0], f"{topic}-key"), self.form(value, codecs[1], f"{topic}-value")
        start, end = None, None
        if unread and k.why is None and v.why is None:
            k = k._replace(why="no operation of a set")
        elif windowed and k.why is None:
            if (window := window_of(k.json)) is None:
                k = k._replace(why="no window")
            else:
                k, start, end = _form(window.key), window.start, window.end
        sides = (("key", k), ("value", v))
        why = "; ".join(f"{side}: {of.why}" for side, of in sides if of.why is not None) or None
        return Texts(k.text, v.text, why, start, end)

    def columns(
        self, raws: tuple[Raws, Raws], topic: str, codecs: Codecs, *, windowed: bool, unread: bool = False
    ) -> dict[str, Sequence[Any]]:
        """Decode many keys and values as `texts` does, to columns by its names."""
        if not windowed and not unread:
            sides = zip(raws, codecs, ("key", "value"), strict=True)
            usual: list[Any] = [self._usual(of, codec, f"{topic}-{side}") for of, codec, side in sides]
            if None not in usual:
                return dict(zip(Texts._fields, [*usual, *[[None] * len(raws[0])] * 3], strict=True))
        rows = [
            self.texts(topic, key, value, codecs, windowed=windowed, unread=unread)
            for key, value in zip(*raws, strict=True)
        ]
        return {name: [getattr(row, name) for row in rows] for name in Texts._fields}

    def operation(
        self, topic: str, key: bytes | None, value: bytes | None, codecs: Codecs
    ) -> Operation | None:
        """Read a record in the changelog of a table of sets; None: it is unreadable."""
        return operation_of(
            self.form(key, codecs[0], f"{topic}-key").json, self.form(value, codecs[1], f"{topic}-value").json
        )

    def form(self, raw: bytes | None, codec: str | None, subject: str = "") -> Form:
        """Decode bytes by a codec.

        Args:
            subject: `TOPIC-key` or `TOPIC-value`.
        """
        if raw is None:
            return NOTHING
        if (schema := self._decoding.avro.get(subject)) is not None:
            return self._by_schema(Schema(schema), raw, f"not Avro by the schema {subject}")
        if codec not in TEXT_CODECS and len(raw) >= PREFIX_BYTES and raw.startswith(MAGIC):
            number = int.from_bytes(raw[1:PREFIX_BYTES], "big")
            if (found := self._by_number(number, raw[PREFIX_BYTES:])) is not None:
                return found
        codec = f"raw{BASE64}" if codec == "binary" else codec  # alone it is text in base64
        inner = None if codec is None else codec.removesuffix(BASE64)
        if codec is not None and inner not in (*JSON_CODECS, *TEXT_CODECS):
            return self._of_the_app(raw, codec)
        if inner != codec:
            try:
                raw = base64.b64decode(raw, validate=True)
            except binascii.Error:
                return Form(why="not base64")
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return Form(why="not UTF-8")
        if inner in TEXT_CODECS:
            return Form(msgspec.json.encode(text).decode(), text)
        if is_json(text):
            return _form(text)
        return Form(why="not JSON") if inner in JSON_CODECS else Form(None, text)

    def _usual(self, raws: Raws, codec: str | None, subject: str) -> list[str | None] | None:
        """Return the texts of what is all plain JSON; None: it is not."""
        if codec in JSON_CODECS and subject not in self._decoding.avro:
            with suppress(UnicodeDecodeError):
                texts = [None if raw is None else raw.decode() for raw in raws]
                if all(text is None or is_json(text) for text in texts):
                    return [None if text is None else text_of(text) for text in texts]
        return None

    def _by_number(self, number: int, raw: bytes) -> Form | None:
        """Decode the bytes after a number by the schema of that number; None: no schema is known by numbers."""
        given, registry = self._decoding.avro.get(str(number)), self._decoding.registry
        if given is not None:
            return self._by_schema(Schema(given), raw, f"not Avro by the schema {number}")
        if registry is None:
            return None
        schema = registry.schema(number)
        if isinstance(schema, str):
            return Form(why=f"schema {number}: {schema}")
        if schema.kind == JSON:
            found = self.form(raw, "json")
            return found if found.why is None else Form(why=f"schema {number}: {found.why}")
        if schema.kind != AVRO:
            return Form(why=f"schema {number}: it is {schema.kind}, which is not supported")
        return self._by_schema(schema, raw, f"schema {number}: not Avro by it")

    def _by_schema(self, schema: Schema, raw: bytes, why: str) -> Form:
        if schema not in self._readers:
            try:
                self._readers[schema] = reader_of(schema)
            except ValueError:
                self._readers[schema] = lambda raw: None
        content = self._readers[schema](raw)
        return Form(why=why) if content is None else _form(content)

    @cached_property
    def _not_imported(self) -> str:
        """Import Faust's codecs and the modules; return why one of them cannot be, empty: all were."""
        try:
            for module in ("faust.serializers.codecs", *self._decoding.codecs):
                importlib.import_module(module)
        except ImportError as error:
            return f"no module {error.name} on a worker"
        except (Exception, SystemExit) as error:
            return f"a module fails on a worker: {type(error).__name__}"
        return ""

    def _of_the_app(self, raw: bytes, name: str) -> Form:
        unpickle = self._decoding.unpickle
        if not unpickle and re.search(PICKLES, name):
            return Form(why=f"codec {name}{REFUSED}")
        if not (self._decoding.codecs or unpickle):
            return Form(why=f"codec {name} is not decoded")
        if self._not_imported:
            return Form(why=f"codec {name}: {self._not_imported}")
        from faust.serializers.codecs import get_codec

        try:
            codec = get_codec(name)
        except Exception:
            return Form(why=f"codec {name} is not registered with Faust")
        if not unpickle and any(type(node).__name__ == "raw_pickle" for node in getattr(codec, "nodes", ())):
            return Form(why=f"codec {name}{REFUSED}")
        try:
            with warnings.catch_warnings(action="ignore"):  # Faust's of pickles: whoever asked for them knows
                found = codec.loads(raw)
            return _form(as_json(found, _plain))
        except (Exception, SystemExit) as error:
            return Form(why=f"codec {name}: {type(error).__name__}")


def _plain(value: Any) -> Any:
    from faust.utils.json import on_default

    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return value.decode() if isinstance(value, bytes) else on_default(value)


def _form(content: str) -> Form:
    return Form(content, text_of(content))
