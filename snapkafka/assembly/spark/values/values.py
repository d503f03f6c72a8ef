"""Keys and values as text: bytes are decoded by the codec of their table.

JSON, text, base64 of either and Avro are Spark expressions; schemas come from options or from a registry
(`schema_numbers`). Any other codec belongs to the app: it is loaded where the data is, by a function over batches
(Arrow), and only if the user names the module that registers it. Undecodable values stay bytes, with the reason; none
of them ends a job.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.app_codecs import codecs_of
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

from .avro import as_json
from .json_text import only_json, quoted, text_of, with_quoted_constants
from .schema_numbers import Numbered, look_up, number_in

#: The columns that say by which codecs a key and a value were made.
CODECS: Final = ("key_codec", "value_codec")


def decoded(table: DataFrame, decoding: Decoding = PLAIN) -> DataFrame:
    """Add `_key` and `_value`, of type `struct<json string, text string, why string>`, for binary `key` and `value`.

    `json` is the content as JSON; `text` is the content of a JSON string, and other text as it is. Both are null for
    null and undecodable values; `why` gives the reason. With a registry, the table is read at once for the numbers of
    schemas in it.

    Args:
        table: with the `topic`, which selects Avro schemas, and `key_codec` and `value_codec`; null: unknown, and the
            bytes are taken for text that may be JSON.
    """
    sides = ("key", "value")
    numbered = _by_number(table, sides, decoding)
    # Step by step: what several expressions need is worked out once.
    return (
        table.withColumns({f"_{name}_utf8": _utf8(_data(name)) for name in sides})
        .withColumns({f"_{name}_json": with_quoted_constants(fn.col(f"_{name}_utf8")) for name in sides})
        .withColumns({f"_{name}_json": only_json(fn.col(f"_{name}_json")) for name in sides})
        .withColumns({f"_{name}": _form(name, decoding, numbered) for name in sides})
        .drop(*(f"_{name}_{step}" for name in sides for step in ("utf8", "json")))
    )


def key_and_value() -> list[Column]:
    """Return the columns `key`, `value`, `key_raw`, `value_raw` and `why_undecoded` of `decoded` rows."""
    sides = ("key", "value")
    why = fn.concat_ws("; ", *(fn.concat(fn.lit(f"{side}: "), f"_{side}.why") for side in sides))
    return [
        *(fn.col(f"_{side}.text").alias(side) for side in sides),
        *(fn.col(side).alias(f"{side}_raw") for side in sides),
        fn.when(fn.length(why) > 0, why).alias("why_undecoded"),
    ]


def form(content: Column) -> Column:
    """Return JSON in the form that `decoded` yields."""
    return _struct(content, text_of(content))


# --- One side -------------------------------------------------------------------------------------------------------


def _data(name: str) -> Column:
    """Return the bytes without base64; null if it is invalid."""
    raw = fn.col(name)
    return fn.when(_in_base64(name), fn.try_to_binary(_utf8(raw), fn.lit("base64"))).otherwise(raw)


def _in_base64(name: str) -> Column:
    return fn.coalesce(fn.col(f"{name}_codec").endswith(BASE64), fn.lit(False))


def _inner(name: str) -> Column:
    codec = fn.col(f"{name}_codec")
    return fn.when(_in_base64(name), fn.regexp_replace(codec, r"\|binary$", "")).otherwise(codec)


def _form(name: str, decoding: Decoding, numbered: Numbered | None) -> Column:
    raw, codec, inner = fn.col(name), fn.col(f"{name}_codec"), _inner(name)
    is_json, is_text = inner.isin(*JSON_CODECS), inner.isin(*TEXT_CODECS)
    by_the_app = _by_the_app(raw, codec, ~is_json & ~is_text, decoding)
    found = fn.when(codec.isNull() | is_json | is_text, _plain(name, is_json, is_text)).otherwise(by_the_app)
    if numbered is not None:
        found = numbered.decoded(name, _number(name), found, _of_json)
    return fn.when(raw.isNotNull(), _by_schema(found, name, decoding)).otherwise(_struct())


def _plain(name: str, is_json: Column, is_text: Column) -> Column:
    """Return JSON, text, or, if the codec is neither, JSON for what looks like it and text for the rest."""
    utf8, parsed = fn.col(f"_{name}_utf8"), fn.col(f"_{name}_json")
    content = fn.when(is_text, quoted(utf8)).otherwise(parsed)
    text = (
        fn.when(is_text, utf8).when(parsed.isNotNull(), text_of(parsed)).when(is_json, None).otherwise(utf8)
    )
    no_text = fn.when(_in_base64(name) & _data(name).isNull(), "not base64").otherwise("not UTF-8")
    why = fn.when(utf8.isNull(), no_text).when(is_json & parsed.isNull(), "not JSON")
    return _struct(content, text, why)


def _struct(content: Column | None = None, text: Column | None = None, why: Column | None = None) -> Column:
    parts = {"json": content, "text": text, "why": why}
    return fn.struct(
        *((fn.lit(None) if part is None else part).cast("string").alias(name) for name, part in parts.items())
    )


def _by_the_app(raw: Column, codec: Column, others: Column, decoding: Decoding) -> Column:
    pickled = codec.rlike(PICKLES) if not decoding.unpickle else fn.lit(False)
    reason = fn.concat(
        fn.lit("codec "),
        codec,
        fn.when(pickled, REFUSED).otherwise(" is not decoded"),
    )
    if not decoding.codecs and not decoding.unpickle:
        return _struct(why=reason)
    loaded = _loading(decoding)(codec, fn.when(others & ~pickled, raw))
    return fn.when(pickled, _struct(why=reason)).otherwise(
        _struct(loaded["json"], text_of(loaded["json"]), loaded["why"])
    )


def _utf8(data: Column) -> Column:
    return fn.try_validate_utf8(data.cast("string"))


# --- Avro -----------------------------------------------------------------------------------------------------------


def _by_schema(found: Column, name: str, decoding: Decoding) -> Column:
    """Return `found`, or Avro if there is a schema for the topic, or for the number before a value that is not text."""
    raw = fn.col(name)
    for known, schema in sorted(decoding.avro.items()):
        if known.isdecimal():
            prefix = MAGIC + int(known).to_bytes(PREFIX_BYTES - 1, "big")
            applies = (fn.substring(raw, 1, PREFIX_BYTES) == fn.lit(prefix)) & _no_text(name)
            data = raw.substr(fn.lit(PREFIX_BYTES + 1), fn.length(raw))
        elif known.endswith(f"-{name}"):
            applies, data = fn.col("topic") == known.removesuffix(f"-{name}"), raw
        else:
            continue
        content = as_json(data, fn.when(applies, 0), [(schema, "")])
        why = fn.when(content.isNull(), f"not Avro by the schema {known}")
        found = fn.when(applies, _of_json(content, why)).otherwise(found)
    return found


def _by_number(table: DataFrame, sides: tuple[str, ...], decoding: Decoding) -> Numbered | None:
    """Ask the registry, if there is one, about the numbers in the table. Schemas from options need no request."""
    if decoding.registry is None:
        return None
    asked = {
        side: fn.when(~fn.concat("topic", fn.lit(f"-{side}")).isin(list(decoding.avro)), _number(side))
        for side in sides
    }
    return look_up(table, asked, decoding.registry, decoding.avro)


def _number(name: str) -> Column:
    """Return the number of the schema before a value that is not text."""
    return fn.when(_no_text(name), number_in(fn.col(name)))


def _no_text(name: str) -> Column:
    codec = fn.col(f"{name}_codec")
    return codec.isNull() | ~codec.isin(*TEXT_CODECS)


def _of_json(content: Column, why: Column) -> Column:
    return _struct(content, text_of(content), why)


# --- Codecs of the app ----------------------------------------------------------------------------------------------


def _loading(decoding: Decoding) -> Any:
    """Create a function of (codec, bytes) over batches. It needs nothing of this package where it runs."""
    opened = codecs_of(decoding.codecs, unpickle=decoding.unpickle)

    def load(codecs: pa.Array, values: pa.Array) -> pa.Array:
        read = opened()
        rows = [
            (None, None) if value is None else read(name, value)
            for name, value in zip(codecs.to_pylist(), values.to_pylist(), strict=True)
        ]
        columns = [pa.array([row[side] for row in rows], pa.string()) for side in (0, 1)]
        return pa.StructArray.from_arrays(columns, names=["json", "why"])

    return fn.arrow_udf(load, "json string, why string")
