"""Keys and values as text: bytes are decoded by the codec of their table.

Whatever cannot be decoded stays bytes, with the reason; no value ends an assembly.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from .app_codecs import PICKLES, REFUSED, Load, loader
from .avro import AVRO, JSON, Schema, reader_of
from .decoding import BASE64, JSON_CODECS, PLAIN, PREFIX_BYTES, TEXT_CODECS, Decoding, number_in
from .json_text import Operation, json_in, operation_of, text_of, window_of


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
        number = None if codec in TEXT_CODECS else number_in(raw)
        if number is not None and (found := self._by_number(number, raw[PREFIX_BYTES:])) is not None:
            return found
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
        if (content := json_in(text)) is not None:
            return _form(content)
        return Form(why="not JSON") if inner in JSON_CODECS else Form(None, text)

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
    def _load(self) -> Load:
        return loader(self._decoding.codecs, unpickle=self._decoding.unpickle)

    def _of_the_app(self, raw: bytes, codec: str) -> Form:
        decoding = self._decoding
        pickled = not decoding.unpickle and re.search(PICKLES, codec) is not None
        if pickled or not (decoding.codecs or decoding.unpickle):
            return Form(why=f"codec {codec}{REFUSED if pickled else ' is not decoded'}")
        content, why = self._load(codec, raw)
        return Form(why=why) if content is None else _form(content)


def _form(content: str) -> Form:
    return Form(content, text_of(content))
