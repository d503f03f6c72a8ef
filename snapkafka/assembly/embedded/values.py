"""Keys and values as text, as `spark.values.values` gives them."""

from __future__ import annotations

import base64
import json
import re
from functools import cached_property
from typing import Final, NamedTuple

from snapkafka.assembly.app_codecs import Load, codecs_of
from snapkafka.assembly.decoding import (
    BASE64,
    JSON_CODECS,
    PICKLES,
    PLAIN,
    REFUSED,
    TEXT_CODECS,
    Decoding,
)

from .handover import HandOverError
from .json_text import is_json, text_of

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

    @cached_property
    def _load(self) -> Load:
        return self._open()

    def __call__(self, raw: bytes | None, codec: str | None) -> Form:
        """Decode bytes by a codec; None: it is unknown, and they are taken for text that may be JSON."""
        if raw is None:
            return NOTHING
        inner = codec.removesuffix(BASE64) if codec is not None else None
        if codec is not None and inner not in (*JSON_CODECS, *TEXT_CODECS):
            return self._of_the_app(raw, codec)
        if codec is not None and codec.endswith(BASE64):
            if not USUAL_BASE64.fullmatch(raw):
                raise HandOverError("base64 in an unusual form")
            raw = base64.b64decode(raw)
        try:
            utf8 = raw.decode()
        except UnicodeDecodeError:
            return Form(why="not UTF-8")
        if inner in TEXT_CODECS:
            return Form(json.dumps(utf8, ensure_ascii=False), utf8)
        if is_json(utf8):
            return form(utf8)
        return Form(why="not JSON") if inner in JSON_CODECS else Form(None, utf8)

    def _of_the_app(self, raw: bytes, codec: str) -> Form:
        pickled = not self._unpickle and re.search(PICKLES, codec) is not None
        if pickled or not self._by_the_app:
            return Form(why=f"codec {codec}{REFUSED if pickled else ' is not decoded'}")
        content, why = self._load(codec, raw)
        return Form(why=why) if content is None else form(content)


def why_undecoded(key: Form, value: Form) -> str | None:
    """Return the column `why_undecoded`."""
    sides = (("key", key), ("value", value))
    return "; ".join(f"{side}: {of.why}" for side, of in sides if of.why is not None) or None
