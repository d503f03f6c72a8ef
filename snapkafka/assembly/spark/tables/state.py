"""The state at the cut: changes of tables, folded, with decoded keys and values.

A change is a record of a changelog, or a row of `state` of an earlier snapshot: its bytes (`key_raw`, `value_raw`) are
those of one record that creates that row, so folding a state with the later changes yields the state after them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.values import CODECS, decoded, key_and_value, with_operations
from snapkafka.assembly.values.decoding import Decoding
from snapkafka.assembly.values.json_text import UPDATE

#: A change, and what has to be known of its table. `place`: a number for the app, table, topic and partition together.
#: `sets`, `windowed`: see `protocol.records.Table`.
CHANGES: Final = (
    "app string, table_name string, topic string, partition int, place int, key binary, value binary, offset bigint, "
    "key_codec string, value_codec string, sets boolean, windowed boolean"
)
#: What changes of one key share, besides the key.
TABLE: Final = ("app", "table_name", "topic", "partition", "windowed")
#: The columns of a decoded change.
ROWS: Final = (*TABLE, "key", "value", "offset", "texts")
#: A word has a bit for each of so many offsets: 2 to this.
WORD: Final = 6
#: Offsets have so many bits at most, so a place and a word make one number: what Spark looks up with the least work.
OFFSET: Final = 48
#: Words for so many offsets are sent to every executor, about a byte for each offset; with more the changes are sent
#: to the words.
SENT_MAX: Final = 200_000_000


def fold(
    changes: DataFrame, decoding: Decoding, *, sets: bool, windows: bool, offsets: int, deleted: bool = False
) -> DataFrame:
    """Compute the table `state` (`STATE_SCHEMA`) from all changes up to the cut (`CHANGES`), in any order.

    Args:
        decoding: of keys and values.
        sets, windows: whether such tables can be among them; without them there is less to do.
        offsets: how many changes there are, at most.
        deleted: whether deleted keys have a row too, without a value.
    """
    plain = changes.where(~fn.col("sets")) if sets else changes
    last = last_of_keys(plain, offsets=offsets).select(*TABLE, *CODECS, "key", "value", "offset")
    last = last if deleted else last.where(fn.col("value").isNotNull())
    rows = decoded(last, decoding, windowed=fn.col("windowed") if windows else None).select(*ROWS)
    if sets:
        rows = rows.unionByName(_sets(changes.where("sets"), decoding))
    return rows.select(
        "app",
        "table_name",
        "partition",
        *key_and_value(),
        fn.col("topic").alias("changelog_topic"),
        fn.col("offset").alias("changelog_offset"),
        "texts.window_start",
        "texts.window_end",
    )


def last_of_keys(changes: DataFrame, *, offsets: int) -> DataFrame:
    """Return the last change of each key, unaltered.

    Values stay where they are: only keys and offsets are shuffled, by hash. Words of 64 bits, one for 64 consecutive
    offsets, mark the last changes; they are small enough to be sent to the changes.

    Args:
        offsets: how many changes there are, at most.
    """
    place = fn.shiftleft(fn.col("place").cast("bigint"), OFFSET - WORD)
    word = place.bitwiseOR(fn.shiftright("offset", WORD))
    bit = fn.expr(f"shiftleft(1L, cast(offset & {(1 << WORD) - 1} AS int))")
    words = (
        changes.groupBy("place", "key")
        .agg(fn.max("offset").alias("offset"))
        .groupBy(word.alias("word"))
        .agg(fn.bit_or(bit).alias("last"))
    )
    hinted = fn.broadcast(words) if offsets <= SENT_MAX else words.hint("shuffle_hash")
    return (
        changes.withColumn("word", word)
        .join(hinted, "word")
        .where(fn.col("last").bitwiseAND(bit) != 0)
        .drop("word", "last")
    )


# --- Sets -----------------------------------------------------------------------------------------------------------


def _sets(operations: DataFrame, decoding: Decoding) -> DataFrame:
    """Return one row per set, from the operations that made it. Its bytes are one operation that recreates it.

    A member belongs to a set if the last operation on it adds it; a member that one operation both adds and removes is
    removed. Unreadable operations stay as they are: the last one of those with the same bytes.
    """
    read = with_operations(operations.where(fn.col("value").isNotNull()), decoding)
    is_unread = fn.col("operation.of").isNull()
    last = [fn.max("offset").alias("offset")]
    unread = read.where(is_unread).groupBy(*TABLE, *CODECS, "key", "value").agg(*last)
    members = (
        _changed(read.where(~is_unread))
        .groupBy(*TABLE, "of", "change.member")
        .agg(fn.max_by("change.gone", fn.struct("offset", "change.gone")).alias("gone"), *last)
    )
    present = fn.sort_array(fn.collect_list(fn.when(~fn.col("gone"), fn.col("member"))))
    content = fn.concat(fn.lit("["), fn.array_join(present, ","), fn.lit("]"))
    whole = (
        members.groupBy(*TABLE, "of")
        .agg(content.alias("members"), *last)
        .withColumns({"key": fn.col("of").cast("binary"), "value": fn.col("members").cast("binary")})
        .withColumns({codec: fn.lit("json") for codec in CODECS})
        .withColumns({"changelog": fn.col("topic"), "topic": fn.lit("")})  # no schema is for these bytes
    )
    return (
        decoded(whole, decoding, windowed=fn.col("windowed"))
        .withColumns(
            {
                "topic": fn.col("changelog"),
                "key": fn.format_string(f"[{UPDATE},%s]", "of").cast("binary"),
                "value": fn.format_string("[%s,[]]", "members").cast("binary"),
            }
        )
        .select(*ROWS)
        .unionByName(
            decoded(unread, decoding, windowed=fn.col("windowed"), unread=fn.lit(True)).select(*ROWS)
        )
    )


def _changed(operations: DataFrame) -> DataFrame:
    """Return operations as changes of members: `of` is the set, `change` a member (null: the set itself) and whether it
    is removed."""
    set_itself = fn.array(_change(fn.lit(None).cast("string"), gone=True))
    added = fn.transform("operation.added", lambda member: _change(member, gone=False))
    lost = fn.transform("operation.lost", lambda member: _change(member, gone=True))
    change = fn.explode(fn.concat(set_itself, added, lost)).alias("change")
    return operations.select(*TABLE, "offset", fn.col("operation.of").alias("of"), change)


def _change(member: Column, *, gone: bool) -> Column:
    return fn.struct(member.alias("member"), fn.lit(gone).alias("gone"))
