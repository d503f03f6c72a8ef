"""Keys and values as text, as `spark.values.values` gives them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

from snapkafka.assembly.app_codecs import Load, codecs_of
from snapkafka.assembly.avro_decoder import decoder
from snapkafka.assembly.decoding import (
    BASE64,
    JSON_CODECS,
    MAGIC,
    PICKLES,
    PLAIN,
    PREFIX_BYTES,
    REFUSED,
    TEXT_CODECS,
    Decoding,
)

from .handover import HandOverError
from .json_text import is_json, text_of, with_quoted_constants
from .log import Record

#: Base64 as encoders write it.
USUAL_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


class Form(NamedTuple):
    """A key or a value: as JSON, as text, and why it is neither."""

    json: str | None = None
    text: str | None = None
    why: str | None = None


NOTHING: Final = Form()


def form(content: str) -> Form:
    """Return JSON in the form in which `Decoder` returns it."""
    return Form(content, text_of(content))


class Decoder:
    """The decoding of keys and values of one snapshot, as `spark.values.values.decoded` does it."""

    def __init__(self, decoding: Decoding = PLAIN) -> None:
        self._by_the_app = bool(decoding.codecs or decoding.unpickle)
        self._unpickle = decoding.unpickle
        self._open = codecs_of(decoding.codecs, unpickle=decoding.unpickle)
        self._avro = sorted(decoding.avro.items(), reverse=True)
        self._decoders: dict[str, Callable[[bytes], str | None]] = {}

    @cached_property
    def _load(self) -> Load:
        return self._open()

    def key(self, record: Record, codec: str | None) -> Form:
        """Decode the key of a record by its codec, or by the schema for it."""
        return self(record.key, codec, f"{record.topic}-key")

    def value(self, record: Record, codec: str | None) -> Form:
        """Decode the value of a record by its codec, or by the schema for it."""
        return self(record.value, codec, f"{record.topic}-value")

    def __call__(self, raw: bytes | None, codec: str | None, subject: str = "") -> Form:
        """Decode bytes by a codec; None: it is unknown, and they are taken for text that may be JSON.

        Args:
            subject: `TOPIC-key` or `TOPIC-value`.
        """
        if raw is None:
            return NOTHING
        for known, schema in self._avro:
            data = _encoded(known, raw, codec, subject)
            if data is not None:
                content = self._decoder(schema)(data)
                return Form(why=f"not Avro by the schema {known}") if content is None else form(content)
        inner = codec.removesuffix(BASE64) if codec is not None else None
        if codec is not None and inner not in (*JSON_CODECS, *TEXT_CODECS):
            return self._of_the_app(raw, codec)
        if codec is not None and codec.endswith(BASE64):
            if not USUAL_BASE64.fullmatch(raw):
                raise HandOverError("base64 in an unusual form")
            raw = base64.b64decode(raw)
        if (utf8 := text_in(raw)) is None:
            return Form(why="not UTF-8")
        if inner in TEXT_CODECS:
            return Form(json.dumps(utf8, ensure_ascii=False), utf8)
        if is_json(content := with_quoted_constants(utf8)):
            return form(content)
        return Form(why="not JSON") if inner in JSON_CODECS else Form(None, utf8)

    def _decoder(self, schema: str) -> Callable[[bytes], str | None]:
        if schema not in self._decoders:
            self._decoders[schema] = decoder(schema)
        return self._decoders[schema]

    def _of_the_app(self, raw: bytes, codec: str) -> Form:
        pickled = not self._unpickle and re.search(PICKLES, codec) is not None
        if pickled or not self._by_the_app:
            return Form(why=f"codec {codec}{REFUSED if pickled else ' is not decoded'}")
        content, why = self._load(codec, raw)
        return Form(why=why) if content is None else form(content)


def _encoded(known: str, raw: bytes, codec: str | None, subject: str) -> bytes | None:
    """Return the bytes that a schema describes: all of those of its subject, and those after its number; None: none."""
    if not known.isdecimal():
        return raw if known == subject else None
    prefix = MAGIC + int(known).to_bytes(PREFIX_BYTES - 1, "big")
    is_text = codec is not None and codec in TEXT_CODECS
    return raw[PREFIX_BYTES:] if raw.startswith(prefix) and not is_text else None


def text_in(raw: bytes | None) -> str | None:
    """Return bytes as text; None if they are not UTF-8."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def why_undecoded(key: Form, value: Form) -> str | None:
    """Return the column `why_undecoded`."""
    sides = (("key", key), ("value", value))
    return "; ".join(f"{side}: {of.why}" for side, of in sides if of.why is not None) or None
