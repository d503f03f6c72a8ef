"""Keys and values as text, as `spark.values.values` gives them."""

from __future__ import annotations

import base64
import json
import re
from typing import Final, NamedTuple

from snapkafka.assembly.decoding import BASE64, JSON_CODECS, PICKLES, REFUSED, TEXT_CODECS

from .handover import HandOverError
from .json_text import is_json, text_of, with_quoted_constants

#: Base64 as encoders write it.
USUAL_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


class Form(NamedTuple):
    """A key or a value: as JSON, as text, and why it is neither."""

    json: str | None = None
    text: str | None = None
    why: str | None = None


NOTHING: Final = Form()


def form(content: str) -> Form:
    """Return JSON in the form of `decoded`."""
    return Form(content, text_of(content))


def decoded(raw: bytes | None, codec: str | None) -> Form:
    """Decode bytes by a codec; None: it is unknown, and they are taken for text that may be JSON."""
    if raw is None:
        return NOTHING
    in_base64 = codec is not None and codec.endswith(BASE64)
    inner = codec.removesuffix(BASE64) if codec is not None else None
    if inner is not None and inner not in (*JSON_CODECS, *TEXT_CODECS):
        pickled = re.search(PICKLES, str(codec)) is not None
        return Form(why=f"codec {codec}{REFUSED if pickled else ' is not decoded'}")
    if in_base64:
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
