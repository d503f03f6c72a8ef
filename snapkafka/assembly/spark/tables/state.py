"""The state at the cut: changes of tables, folded, with decoded keys and values.

A change is a record of a changelog, or a row of `state` of an earlier snapshot: its bytes (`key_raw`, `value_raw`) are
those of one record that creates that row, so folding a state with the later changes yields the state after them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.decoding import Decoding
from snapkafka.assembly.schemas import FIRST_WINDOW_S, LAST_WINDOW_S
from snapkafka.assembly.spark.values.json_text import parsed, unparsed
from snapkafka.assembly.spark.values.values import CODECS, decoded, form, key_and_value

#: A change, and what has to be known of its table. `place`: a number for the app, table, topic and partition together.
#: `sets`, `windowed`: see `protocol.records.Table`.
CHANGES: Final = (
    "app string, table_name string, topic string, partition int, place int, key binary, value binary, offset bigint, "
    "key_codec string, value_codec string, sets boolean, windowed boolean"
)
#: What changes of one key share, besides the key.
TABLE: Final = ("app", "table_name", "topic", "partition", "windowed")
#: The first part of the keys in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2
UPDATE: Final = 15
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
    rows = decoded(last if deleted else last.where(fn.col("value").isNotNull()), decoding)
    if sets:
        rows = rows.unionByName(_sets(decoded(changes.where("sets"), decoding)))
    none = fn.lit(None).cast("timestamp")
    rows = _without_windows(rows) if windows else rows.withColumns({"window_start": none, "window_end": none})
    return rows.select(
        "app",
        "table_name",
        "partition",
        *key_and_value(),
        fn.col("topic").alias("changelog_topic"),
        fn.col("offset").alias("changelog_offset"),
        "window_start",
        "window_end",
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


def _sets(operations: DataFrame) -> DataFrame:
    """Return one row per set, from the operations that made it. Its bytes are one operation that recreates it.

    A member belongs to a set if the last operation on it adds it; a member that one operation both adds and removes is
    removed. Unreadable operations stay as they are: the last one of those with the same bytes.
    """
    place = [*TABLE, *CODECS, "of", "key", "value"]
    unread = [fn.first(side).alias(side) for side in ("_key", "_value")]
    last = (
        _changed(operations)
        .groupBy(*place, "change.member")
        .agg(
            fn.max_by("change.gone", fn.struct("offset", "change.gone")).alias("gone"),
            fn.max("offset").alias("offset"),
            *unread,
        )
    )
    present = fn.when(~fn.col("gone"), fn.col("member"))
    members = fn.concat(fn.lit("["), fn.array_join(fn.sort_array(fn.collect_list(present)), ","), fn.lit("]"))
    return (
        last.groupBy(*place)
        .agg(members.alias("members"), fn.max("offset").alias("offset"), *unread)
        .withColumns(
            {
                "key": fn.coalesce("key", fn.format_string(f"[{UPDATE},%s]", "of").cast("binary")),
                "value": fn.coalesce("value", fn.format_string("[%s,[]]", "members").cast("binary")),
                "_key": fn.coalesce("_key", form(fn.col("of"))),
                "_value": fn.coalesce("_value", form(fn.col("members"))),
            }
        )
        .select(*TABLE, *CODECS, "key", "value", "offset", "_key", "_value")
    )


def _changed(operations: DataFrame) -> DataFrame:
    """Return operations as changes of members: `of` is the set (as JSON), `change` a member (null: the set itself) and
    whether it is removed. Unreadable operations have no `of`; the others have no `key`, `value` and decoded forms."""
    v, kind = fn.col("v"), fn.col("kind")
    none, one = fn.array().cast("array<string>"), fn.when(v.isNotNull(), fn.array(unparsed(v)))
    why = fn.coalesce("_key.why", fn.when(fn.col("_value.why").isNull(), "no operation of a set"))
    set_itself = fn.array(_change(fn.lit(None).cast("string"), gone=True))
    members = fn.concat(
        fn.transform("added", lambda member: _change(member, gone=False)),
        fn.transform("lost", lambda member: _change(member, gone=True)),
    )
    return (
        operations.where(fn.col("value").isNotNull())
        .withColumns({"k": parsed(fn.col("_key.json")), "v": parsed(fn.col("_value.json"))})
        .withColumns(
            {
                "kind": fn.try_variant_get("k", "$[0]", "int"),
                "of": unparsed(fn.try_variant_get("k", "$[1]", "variant")),
            }
        )
        .withColumns(
            {
                "added": fn.when(kind == ADD, one).when(kind == DISCARD, none).when(kind == UPDATE, _part(0)),
                "lost": fn.when(kind == DISCARD, one).when(kind == ADD, none).when(kind == UPDATE, _part(1)),
            }
        )
        .withColumn("of", fn.when(fn.col("added").isNotNull() & fn.col("lost").isNotNull(), fn.col("of")))
        .select(
            *TABLE,
            *CODECS,
            "of",
            "offset",
            *(
                fn.when(fn.col("of").isNull(), fn.col(name)).alias(name)
                for name in ("key", "value", "_value")
            ),
            fn.when(fn.col("of").isNull(), fn.col("_key").withField("why", why)).alias("_key"),
            fn.explode(fn.coalesce(fn.concat(set_itself, members), set_itself)).alias("change"),
        )
    )


def _part(index: int) -> Column:
    """Return the members in a part of an update, each as JSON."""
    return fn.transform(fn.try_variant_get("v", f"$[{index}]", "array<variant>"), unparsed)


def _change(member: Column, *, gone: bool) -> Column:
    return fn.struct(member.alias("member"), fn.lit(gone).alias("gone"))


# --- Windows --------------------------------------------------------------------------------------------------------


def _time(path: str) -> Column:
    """Return a bound of a window as a time, to the microsecond; null: it is none."""
    seconds = fn.try_variant_get("pair", path, "double")
    time = fn.timestamp_micros(fn.floor(seconds * 1_000_000 + 0.5).cast("bigint"))
    return fn.when(seconds.between(FIRST_WINDOW_S, LAST_WINDOW_S), time)


def _without_windows(changes: DataFrame) -> DataFrame:
    """Split the window from the key of decoded changes: Faust writes `[key, [start, end]]`."""
    readable = fn.col("windowed") & fn.col("_key.why").isNull()
    is_window = fn.col("window_start").isNotNull() & fn.col("window_end").isNotNull()
    no_window = fn.col("_key").withField("why", fn.lit("no window"))
    return (
        changes.withColumn("pair", parsed(fn.when(readable, fn.col("_key.json"))))
        .withColumns(
            {
                "inner": unparsed(fn.try_variant_get("pair", "$[0]", "variant")),
                "window_start": _time("$[1][0]"),
                "window_end": _time("$[1][1]"),
            }
        )
        .withColumns(
            {
                "_key": fn.when(is_window, form(fn.col("inner")))
                .when(readable, no_window)
                .otherwise(fn.col("_key")),
                "window_start": fn.when(is_window, fn.col("window_start")),
                "window_end": fn.when(is_window, fn.col("window_end")),
            }
        )
    )
