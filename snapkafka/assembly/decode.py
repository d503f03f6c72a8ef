"""Bytes to columns: headers, ours and others. Expressions only, no Python per record.

The layout of the `_sk` header is told in `snapkafka.wire.headers`. What does not fit it, or belongs to another ledger
or partition, is no header of ours: the record is external.
"""

from __future__ import annotations

import functools
import operator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from snapkafka.wire import headers as wire

__all__ = ["STAMPS_SCHEMA", "other_headers", "stamped", "stamps"]

#: First byte (version and flags) and length of each kind of header.
PLAIN: Final = (wire.VERSION << 4, wire.PLAIN_BYTES)
CAUSED: Final = (wire.VERSION << 4 | wire.CAUSE, wire.CAUSED_BYTES)
CAUSED_SHORT: Final = (wire.VERSION << 4 | wire.CAUSE | wire.SHORT, wire.CAUSED_SHORT_BYTES)
MARKER: Final = (wire.VERSION << 4 | wire.MARKER, wire.MARKER_BYTES)
#: What the checks need of a record; `process` is null for an external one, and so are the causes (topic check,
#: partition, offset) where it is stamped without one. `key_hash`: null where there is no key.
STAMPS_SCHEMA: Final = (
    "topic string, partition int, offset bigint, process bigint, epoch bigint, seq bigint, marker boolean, "
    "cause_check bigint, cause_partition bigint, cause_offset bigint, key_hash bigint"
)


def stamped(records: DataFrame, *, ledger_id: int) -> DataFrame:
    """Adds the columns of a stamp to records of the source (`STAMPS_SCHEMA`; `process` null: external).

    Args:
        records: `source.SOURCE_SCHEMA`.
        ledger_id: that of the ledger (`wire.headers.ledger_id`).
    """
    ours = fn.filter("headers", lambda h: (h["key"] == wire.HEADER) & h["value"].isNotNull())
    size, begins = fn.length("_header"), fn.substring("_header", 1, 3)
    kinds = (
        (begins == fn.lit(bytes([byte]) + ledger_id.to_bytes(2, "big"))) & (size == length)
        for byte, length in (PLAIN, CAUSED, CAUSED_SHORT, MARKER)
    )
    place = fn.crc32(fn.concat("topic", fn.lit(":"), fn.col("partition").cast("string")).cast("binary"))
    # Numbers that lie side by side are read as one: it is what takes the time.
    check_and_epoch, cause = _number(4, 6), _number(19, 4)
    belongs = functools.reduce(operator.or_, kinds) & (
        fn.shiftright(check_and_epoch, 32) == place.bitwiseAND(fn.lit(0xFFFF))
    )
    short = size == wire.CAUSED_SHORT_BYTES
    caused = fn.col("_ours") & (short | (size == wire.CAUSED_BYTES))
    return (
        # Of several the last counts, as in Kafka's own lastHeader(): a copy that was carried along stands before it.
        records.withColumn("_header", fn.try_element_at(ours, fn.lit(-1))["value"])
        .withColumn("_ours", fn.coalesce(belongs, fn.lit(False)))
        .select(
            *records.columns,
            fn.when(fn.col("_ours"), _number(10, 4)).alias("process"),
            fn.when(fn.col("_ours"), check_and_epoch.bitwiseAND(fn.lit(0xFFFF_FFFF))).alias("epoch"),
            fn.when(fn.col("_ours"), _number(14, 5)).alias("seq"),
            (fn.col("_ours") & (size == wire.MARKER_BYTES)).alias("marker"),
            fn.when(caused, fn.shiftright(cause, 16)).alias("cause_check"),
            fn.when(caused, cause.bitwiseAND(fn.lit(0xFFFF))).alias("cause_partition"),
            fn.when(caused, fn.when(short, _number(23, 4)).otherwise(_number(23, 5))).alias("cause_offset"),
            fn.when(fn.col("key").isNotNull(), fn.xxhash64("key")).alias("key_hash"),
        )
    )


def stamps(records: DataFrame) -> DataFrame:
    """The light part of stamped records, for the checks: `STAMPS_SCHEMA`."""
    return records.select(*StructType.fromDDL(STAMPS_SCHEMA).names)


def _number(start: int, size: int) -> Column:
    """The unsigned number in bytes `start`.. (from 1) of the header."""
    return fn.conv(fn.hex(fn.substring("_header", start, size)), 16, 10).cast("bigint")


def other_headers() -> Column:
    """The record's headers without ours, as a map; of a repeated key the last value."""
    others = fn.filter("headers", lambda h: h["key"] != wire.HEADER)

    def last(header: Column, index: Column) -> Column:
        rest = fn.slice(others, index + 2, fn.size(others) + 1)
        return ~fn.exists(rest, lambda later: later["key"] == header["key"])

    return fn.map_from_entries(fn.filter(others, last))
