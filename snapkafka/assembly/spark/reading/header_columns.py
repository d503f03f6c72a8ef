"""Headers as columns, ours and others: expressions only, no Python per record.

The layout of the `_sk` header is described in `snapkafka.wire.headers`. Bytes of another form, or of another ledger or
partition, are not a header of ours: the record is external.
"""

from __future__ import annotations

import functools
import operator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from snapkafka.wire import headers as wire

from .big_endian import number

#: First byte (version and flags) and length of each kind of header.
PLAIN: Final = (wire.VERSION << 4, wire.PLAIN_BYTES)
CAUSED: Final = (wire.VERSION << 4 | wire.CAUSE, wire.CAUSED_BYTES)
MARKER: Final = (wire.VERSION << 4 | wire.MARKER, wire.MARKER_BYTES)
#: What the checks need of a record; `process` is null for an external one, and so are the causes (topic check,
#: partition, offset) where it is stamped without one. `key_hash`: null where there is no key.
STAMPS_SCHEMA: Final = (
    "topic string, partition int, offset bigint, process bigint, epoch bigint, seq bigint, marker boolean, "
    "cause_check bigint, cause_partition bigint, cause_offset bigint, key_hash bigint"
)


def stamped(records: DataFrame, *, ledger_id: int) -> DataFrame:
    """Add the columns of a stamp to records of the source (`STAMPS_SCHEMA`; `process` null: external).

    Args:
        records: `source.SOURCE_SCHEMA`.
        ledger_id: that of the ledger (`wire.headers.ledger_id`).
    """
    # Of several the last counts, as in Kafka's own lastHeader(): a copy that was carried along stands before it.
    from_the_end = fn.array_position(fn.reverse(fn.col("headers.key")), wire.HEADER).cast("int")
    header, size, begins = fn.col("_header"), fn.length("_header"), fn.substring("_header", 1, 3)
    kinds = (
        (begins == fn.lit(bytes([byte]) + ledger_id.to_bytes(2, "big"))) & (size == length)
        for byte, length in (PLAIN, CAUSED, MARKER)
    )
    place = fn.crc32(fn.concat("topic", fn.lit(":"), fn.col("partition").cast("string")).cast("binary"))
    belongs = functools.reduce(operator.or_, kinds) & (
        fn.shiftrightunsigned("_first", 48) == place.bitwiseAND(fn.lit(0xFFFF))
    )
    first, second, cause = fn.col("_first"), fn.col("_second"), fn.col("_cause")
    ours, caused = fn.col("_ours"), fn.col("_ours") & (size == wire.CAUSED_BYTES)
    return (
        records.withColumn(
            "_header", fn.try_element_at("headers", -fn.nullif(from_the_end, fn.lit(0)))["value"]
        )
        # As many bytes at once as a number can have.
        .withColumns(
            {
                "_first": number(header, 4, 8),
                "_second": number(header, 12, 7),
                "_cause": number(header, 19, 8),
            }
        )
        .withColumn("_ours", fn.coalesce(belongs, fn.lit(False)))
        .select(
            *records.columns,
            fn.when(ours, fn.shiftleft(_low(first, 16), 16) + fn.shiftright(second, 40)).alias("process"),
            fn.when(ours, _low(fn.shiftright(first, 16), 32)).alias("epoch"),
            fn.when(ours, _low(second, 40)).alias("seq"),
            (ours & (size == wire.MARKER_BYTES)).alias("marker"),
            fn.when(caused, fn.shiftrightunsigned(cause, 48)).alias("cause_check"),
            fn.when(caused, _low(fn.shiftright(cause, 32), 16)).alias("cause_partition"),
            fn.when(caused, number(header, 23, 5)).alias("cause_offset"),
            _key_hash().alias("key_hash"),
        )
    )


def stamps(records: DataFrame) -> DataFrame:
    """Return the part of stamped records that the checks need: `STAMPS_SCHEMA`. The hash of the key may be missing."""
    if "key_hash" not in records.columns:
        records = records.withColumn("key_hash", _key_hash())
    return records.select(*StructType.fromDDL(STAMPS_SCHEMA).names)


def _key_hash() -> Column:
    return fn.when(fn.col("key").isNotNull(), fn.xxhash64("key"))


def _low(number: Column, bits: int) -> Column:
    """Return the last bits of a number, unsigned."""
    return number.bitwiseAND(fn.lit((1 << bits) - 1))


def other_headers() -> Column:
    """Select the record's headers without ours, as a list: order, repeated keys and null values stay."""
    return fn.filter("headers", lambda h: h["key"] != wire.HEADER)


def headers_as_text(headers: Column) -> Column:
    """Return the last value of each header as text, null where it is not UTF-8, by the header's name."""
    names = fn.array_distinct(headers["key"])

    def last(name: Column) -> Column:
        found = fn.element_at(fn.filter(headers, lambda h: h["key"] == name), -1)
        return fn.try_validate_utf8(found["value"].cast("string"))

    return fn.map_from_arrays(names, fn.transform(names, last))
