"""The tables of a snapshot, as transforms from stamped records and the captured snapshot.

Each has an explicit schema (`schema`), and ends in a `select` of exactly these columns. No table contains markers or
headers of ours.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.schemas import LAST_MS, TIMESTAMP_TYPE_NAMES, columns
from snapkafka.assembly.spark.frames import Lookups, local_frame
from snapkafka.assembly.spark.reading.header_columns import headers_as_text, other_headers
from snapkafka.assembly.spark.values import decoded, key_and_value
from snapkafka.assembly.values.decoding import PLAIN, Decoding
from snapkafka.manifest import STATE

from .state import fold

# --- State ----------------------------------------------------------------------------------------------------------


def state(records: DataFrame, lookups: Lookups, decoding: Decoding = PLAIN) -> DataFrame:
    """Return the tables of the apps at the cut: the fold of the white changes below the ends of the changelogs (R8)."""
    white = of_changelogs(records, lookups).where("white")
    found = fold(
        white,
        decoding,
        sets=lookups.any_sets,
        windows=lookups.any_windows,
        offsets=lookups.view.state_offsets,
    )
    return found.select(*columns(STATE))


def of_changelogs(records: DataFrame, lookups: Lookups) -> DataFrame:
    """Return records of changelogs below their ends, each with its table, and whether it is `white`."""
    return (
        without_void(records, lookups)
        .where(~fn.col("marker"))
        .join(fn.broadcast(lookups.changelogs), ["topic", "partition"])
        .where(fn.col("offset") < fn.col("end"))
        .transform(lookups.with_senders)
        .withColumn("white", is_white(lookups.view.epoch))
    )


def is_white(epoch: int) -> Column:
    """Return whether a record of a changelog, below its end, is in the state at the cut. Needs `left` of its process.

    Records are red if their process was born after the trigger or had turned red; records without our header (older
    than snapkafka, or of a tool) are white. All records below the end of a process that left before the trigger are
    white.
    """
    red = fn.col("process").isNotNull() & ((fn.col("process") >= epoch) | (fn.col("epoch") >= epoch))
    return fn.coalesce(fn.col("left"), fn.lit(False)) | ~red


def without_void(records: DataFrame, lookups: Lookups) -> DataFrame:
    """Leave out records that processes older than a restore appended to the restored log: workers skip them."""
    over, bases = lookups.view.before_restore, lookups.view.captured.bases
    if not over:
        return records
    rows = [{"topic": base.topic, "partition": base.partition, "base": base.end} for base in bases]
    ends = local_frame(lookups.spark, "topic string, partition int, base bigint", rows)
    void = fn.col("process").isin(*over) & (fn.col("offset") >= fn.col("base"))
    kept = records.join(fn.broadcast(ends), ["topic", "partition"], "left")
    return kept.where(~fn.coalesce(void, fn.lit(False))).drop("base")


# --- Channels -------------------------------------------------------------------------------------------------------


def messages(records: DataFrame, lookups: Lookups, decoding: Decoding = PLAIN) -> DataFrame:
    """Return the messages in flight, decoded: one row per message and app that had still to start it (R8).

    A living sender ends at its white end; one that left before the trigger, at the log end that the receiver saw.
    External records are not messages.
    """
    epoch = lookups.view.epoch
    offset, left = fn.col("offset"), fn.col("left")
    end = fn.when(left, fn.col("log_end")).otherwise(fn.coalesce(fn.col("white_end"), fn.lit(0)))
    in_flight = (
        without_void(records, lookups)
        .where(fn.col("process").isNotNull() & (fn.col("process") < epoch) & ~fn.col("marker"))
        .join(fn.broadcast(lookups.inputs), ["topic", "partition"])
        .where(still_to_start(offset))
        .transform(lookups.with_senders)
        .where(left.isNotNull())
        .join(fn.broadcast(lookups.senders), ["process", "topic", "partition"], "left")
        .where((offset < end) & (left | (fn.col("epoch") < epoch)))
    )
    return (
        decoded(in_flight, decoding)
        .select(
            fn.col("process").alias("sender"),
            "sender_app",
            fn.col("app").alias("receiver_app"),
            "topic",
            "partition",
            "offset",
            "seq",
            *key_and_value(),
            other_headers().alias("headers"),
            headers_as_text(other_headers()).alias("headers_text"),
            fn.when(fn.col("timestamp_ms").between(0, LAST_MS), fn.timestamp_millis("timestamp_ms")).alias(
                "timestamp"
            ),
            "timestamp_ms",
            timestamp_type().alias("timestamp_type"),
        )
        .select(*columns("messages"))
    )


def timestamp_type() -> Column:
    """Return Kafka's name of the type of a record's timestamp; null if the record has none."""
    kind, name = fn.col("timestamp_type"), fn.lit(None).cast("string")
    for number, text in TIMESTAMP_TYPE_NAMES.items():
        name = fn.when(kind == number, fn.lit(text)).otherwise(name)
    return name


def still_to_start(offset: Column) -> Column:
    """Return whether some agent of the joined input has still to start `offset`."""
    return (offset >= fn.col("position")) & ~fn.array_contains("done", offset)
