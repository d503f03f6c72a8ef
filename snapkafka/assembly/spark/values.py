"""Keys and values as text: the one decoder, in Python functions over batches of rows (Arrow)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.assembly.values.decoding import NUMBERS_MAX, PREFIX_BYTES, Decoding

from .reading.meter import step

#: The columns that say by which codecs a key and a value were made.
CODECS: Final = ("key_codec", "value_codec")
#: What a row is decoded from.
ROW: Final = ("topic", "key", "value", *CODECS)
TEXTS: Final = "key string, value string, why_undecoded string, window_start timestamp, window_end timestamp"
OPERATION: Final = "of string, added array<string>, lost array<string>"


def decoded(
    table: DataFrame, decoding: Decoding, *, windowed: Column | None = None, unread: Column | None = None
) -> DataFrame:
    """Add the struct `texts` to rows that have the columns `ROW`; see `Decoder.texts`."""
    flags = (fn.lit(False) if flag is None else flag for flag in (windowed, unread))

    def texts(decoder: Decoder, topic: str, key: Any, value: Any, *more: Any) -> Sequence[Any] | None:
        *codecs, has_window, is_unread = more
        return decoder.texts(topic, key, value, tuple(codecs), windowed=has_window, unread=is_unread)

    return table.withColumn("texts", _function(texts, decoding, TEXTS)(*ROW, *flags))


def with_operations(table: DataFrame, decoding: Decoding) -> DataFrame:
    """Add the struct `operation` to records of tables of sets; its `of` is null if it is unreadable."""

    def operation(decoder: Decoder, topic: str, key: Any, value: Any, *codecs: Any) -> Sequence[Any] | None:
        return decoder.operation(topic, key, value, codecs)

    return table.withColumn("operation", _function(operation, decoding, OPERATION)(*ROW))


def key_and_value() -> list[Column]:
    """Return the columns `key`, `value`, `key_raw`, `value_raw` and `why_undecoded` of `decoded` rows."""
    return [
        *(fn.col(f"texts.{side}").alias(side) for side in ("key", "value")),
        *(fn.col(side).alias(f"{side}_raw") for side in ("key", "value")),
        fn.col("texts.why_undecoded").alias("why_undecoded"),
    ]


def resolved(table: DataFrame, decoding: Decoding) -> Decoding:
    """Ask the registry, if there is one, about the numbers in a table, which is read for that."""
    if decoding.registry is None:
        return decoding
    numbers = (
        fn.when(
            (fn.length(side) >= PREFIX_BYTES) & (fn.substring(side, 1, 1) == fn.lit(b"\x00")),
            fn.conv(fn.hex(fn.substring(side, 2, PREFIX_BYTES - 1)), 16, 10).cast("bigint"),
        )
        for side in ("key", "value")
    )
    with step(table.sparkSession, "numbers of schemas"):
        found = (
            table.select(fn.explode(fn.array(*numbers)).alias("number"))
            .where(fn.col("number").isNotNull())
            .distinct()
            .orderBy("number")
            .limit(NUMBERS_MAX + len(decoding.avro))
            .collect()
        )
    return decoding.resolved(row.number for row in found)


def _function(row: Callable[..., Sequence[Any] | None], decoding: Decoding, ddl: str) -> Any:
    """Create a function over batches from one of a decoder and the values of a row."""
    schema, decoders = arrow_schema(ddl), list[Decoder]()

    def batch(*columns: pa.Array) -> pa.Array:
        if not decoders:
            decoders.append(Decoder(decoding))
        rows = [
            row(decoders[0], *values) or [None] * len(schema)
            for values in zip(*(column.to_pylist() for column in columns), strict=True)
        ]
        arrays = [pa.array([found[nth] for found in rows], field.type) for nth, field in enumerate(schema)]
        return pa.StructArray.from_arrays(arrays, fields=list(schema))

    return fn.arrow_udf(batch, ddl)
