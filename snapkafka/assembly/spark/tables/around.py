"""The table `around`: records in a window around the cut, so that it can be drawn when the log no longer exists.

For every channel (sender, partition, receiving app) and each side of the cut it holds the nearest records: the last
ones received before it, the first ones in flight across it, the first ones sent after it. A record is placed by its
own time, and its receipt by its effects: the time of the first record that its event sent. These times decide nothing;
the colour and receipt of a record follow from the snapshot alone.

The window reaches past the ends of the snapshot, so its content also depends on when the log is read. For that reason
its rows are not part of a manifest's `content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.reaches import PREVIEW_CHARS, Reach
from snapkafka.assembly.schemas import columns
from snapkafka.assembly.spark.frames import Lookups, local_frame, value_of
from snapkafka.assembly.spark.values import decoded
from snapkafka.assembly.values.decoding import PLAIN, Decoding
from snapkafka.manifest import AROUND
from snapkafka.wire.headers import topics_by_check

from .tables import still_to_start, without_void

#: So many receipts are looked up as they are; of more, Spark decides how.
BROADCAST_MAX: Final = 100_000

#: What of an input is near the cut: offsets `[low, middle)` about its position, `[late, high)` behind the first white
#: end of a sender; `check` is how a cause in a header names its topic. The others are those of `frames.INPUTS`.
REACHES: Final = (
    "app string, topic string, partition int, receiver bigint, position bigint, done array<bigint>, log_end bigint, "
    "key_codec string, value_codec string, check bigint, low bigint, middle bigint, late bigint, high bigint"
)


def around(
    records: DataFrame, lookups: Lookups, window: int, reaches: Sequence[Reach], decoding: Decoding = PLAIN
) -> DataFrame:
    """Return the records around the cut, with the times of their receipts.

    Args:
        records: stamped, of the reading ranges and the `leads`; read twice.
        window: records of each channel and kind at most.
        reaches: the windows (`reach`).
    """
    # Of what is kept, parts without a record of an input are skipped unread.
    of_inputs = records.where(fn.col("topic").isin(sorted({item.topic for item in reaches})))
    near = _nearest(_near(of_inputs, lookups, _reaches(lookups, reaches)), window)
    receipts = _receipts(records, lookups, reaches)
    if sum(item.high - item.low for item in reaches) <= BROADCAST_MAX:
        receipts = fn.broadcast(receipts)
    caused = fn.col("cause_topic").isNotNull()
    size = fn.coalesce(fn.length("key"), fn.lit(0)) + fn.coalesce(fn.length("value"), fn.lit(0))
    return (
        decoded(near, decoding)
        .join(receipts, ["app", "topic", "partition", "offset"], "left")
        .withColumn("cause_topic", _cause_topic(lookups))
        .select(
            fn.col("process").alias("sender"),
            "sender_app",
            fn.col("app").alias("receiver_app"),
            "receiver",
            "topic",
            "partition",
            "offset",
            "seq",
            "side",
            "received",
            _ms(fn.col("timestamp_ms")).alias("sent_ms"),
            "received_ms",
            fn.coalesce("effects", fn.lit(0).cast("bigint")).alias("effects"),
            "cause_topic",
            fn.when(caused, fn.col("cause_partition").cast("int")).alias("cause_partition"),
            fn.when(caused, fn.col("cause_offset")).alias("cause_offset"),
            *(fn.left(f"texts.{side}", fn.lit(PREVIEW_CHARS)).alias(side) for side in ("key", "value")),
            size.cast("bigint").alias("bytes"),
            "more",
        )
        .select(*columns(AROUND))
    )


def _near(records: DataFrame, lookups: Lookups, reaches: DataFrame) -> DataFrame:
    """Return records near the cut with their `side`, and whether every agent had `received` them at the cut."""
    epoch, offset, left = lookups.view.epoch, fn.col("offset"), fn.col("left")
    white = fn.when(left, offset < fn.col("log_end")).otherwise(
        (fn.col("epoch") < epoch) & (offset < fn.coalesce("white_end", fn.lit(0)))
    )
    of_ours = left.isNotNull() & (fn.col("process") < epoch)
    return (
        without_void(records, lookups)
        .where(~fn.col("marker"))
        .join(fn.broadcast(reaches), ["topic", "partition"])
        .where(_is_within(offset))
        .transform(lookups.with_senders)
        .join(fn.broadcast(lookups.senders), ["process", "topic", "partition"], "left")
        .withColumn(
            "side",
            fn.when(fn.col("process").isNull(), "external")
            .when(fn.coalesce(of_ours & white, fn.lit(False)), "white")
            .otherwise("red"),
        )
        .withColumn("received", ~still_to_start(offset))
    )


def _nearest(records: DataFrame, window: int) -> DataFrame:
    """Keep the last received ones of each kind, and the first of the others; `more`: the farthest kept record, if
    there are farther ones."""
    kind = Window.partitionBy("topic", "partition", "app", "process", "side", "received")
    distance = fn.when(fn.col("received"), -fn.col("offset")).otherwise(fn.col("offset"))
    # One more than are kept shows that there are more. A limit that Spark sees spares it from sorting them all.
    nearest = records.withColumn("_nth", fn.row_number().over(kind.orderBy(distance))).where(
        fn.col("_nth") <= window + 1
    )
    return (
        nearest.withColumn("more", (fn.col("_nth") == window) & (fn.max("_nth").over(kind) > window))
        .where(fn.col("_nth") <= window)
        .drop("_nth")
    )


def _receipts(records: DataFrame, lookups: Lookups, reaches: Sequence[Reach]) -> DataFrame:
    """Return by app and place of a record when its event sent its first record, and how many it sent."""
    causes = _reaches(lookups, reaches).select(
        "app", "topic", "partition", "check", "low", "middle", "late", "high"
    )
    lowest = min((item.low for item in reaches), default=0)
    caused = fn.col("cause_offset") >= lowest  # of what is kept, most is skipped unread
    return (
        records.where(~fn.col("marker") & caused)
        .select("process", "timestamp_ms", "cause_check", "cause_partition", "cause_offset")
        .join(
            fn.broadcast(causes),
            (fn.col("cause_check") == fn.col("check"))
            & (fn.col("cause_partition") == fn.col("partition"))
            & _is_within(fn.col("cause_offset")),
        )
        .transform(lookups.with_senders)
        .where(fn.coalesce(fn.col("sender_app") == fn.col("app"), fn.lit(True)))
        .groupBy("app", "topic", "partition", fn.col("cause_offset").alias("offset"))
        .agg(
            fn.min(_ms(fn.col("timestamp_ms"))).alias("received_ms"),
            fn.count(fn.lit(1)).alias("effects"),
        )
    )


def _is_within(offset: Column) -> Column:
    about = (offset >= fn.col("low")) & (offset < fn.col("middle"))
    late = (offset >= fn.col("late")) & (offset < fn.col("high"))
    return about | fn.coalesce(late, fn.lit(False))


def _ms(time: Column) -> Column:
    """Return a valid time: Kafka writes -1 for none."""
    return fn.when(time >= 0, time)


def _names(lookups: Lookups) -> Mapping[int, str]:
    return topics_by_check(source.topic for source in lookups.view.captured.inputs)


def _cause_topic(lookups: Lookups) -> Column:
    """Return the topic that the cause of a record names; null: none, or none that is read."""
    return value_of(fn.col("cause_check"), _names(lookups).items(), "string")


def _reaches(lookups: Lookups, reaches: Sequence[Reach]) -> DataFrame:
    checks = {topic: check for check, topic in _names(lookups).items()}
    inputs = {(row["app"], row["topic"], row["partition"]): row for row in lookups.input_rows}
    rows: list[dict[str, Any]] = []
    for item in reaches:
        row = inputs[item.app, item.topic, item.partition]
        bounds = {name: getattr(item, name) for name in ("low", "middle", "late", "high")}
        rows.append(row | bounds | {"check": checks.get(item.topic)})
    return local_frame(lookups.spark, REACHES, rows)
