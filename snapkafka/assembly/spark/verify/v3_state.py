"""V3 in Spark: facts about the changelogs, which `snapkafka.checks.v3_state` judges.

The pre-filter (`prefilter`), without keys, decides most cases: a changelog from which nothing was removed. Keys are
compared only for the others, with one shuffle by key.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import local_frame
from snapkafka.assembly.spark.reading.session import kept
from snapkafka.assembly.spark.tables.tables import is_white
from snapkafka.checks import KINDS, WITNESSES_MAX, Finding, ReadRange
from snapkafka.checks.kinds import OF_STATE
from snapkafka.checks.v3_state import (
    KeyFacts,
    Place,
    StateFacts,
    doubtful,
    judge,
    state_unordered,
    unordered_tables,
)
from snapkafka.protocol.records import TopicPartition

from .log_frames import LogFrames
from .prefilter import Look
from .rule import Search
from .sequences import TP

GLOBAL: Final = "topic string, partition int, state_end bigint, of_table int"
ENDS: Final = "topic string, partition int, state_end bigint, first_later bigint"


def find(log: LogFrames, look: Look) -> tuple[list[Finding], Counter[str]]:
    """Return the first findings of V3 of each kind, and the number of each."""
    seen = look.held
    view = log.view
    found, asked = judge(view, seen)
    counts = Counter(finding.kind for finding in found)
    if asked:
        keys = key_facts(log, asked)
        for tp, fact in asked.items():
            of_keys = doubtful(view, tp, fact, keys[tp])
            found += of_keys
            counts.update(finding.kind for finding in of_keys)
            counts["state-overtaken"] += keys[tp].overtaken_found - len(keys[tp].overtaken) if of_keys else 0
    of_tables, keys_asked = unordered_tables(view, seen)
    found += of_tables
    counts.update(finding.kind for finding in of_tables)
    if keys_asked:
        several, how_many = _unordered_keys(log, keys_asked)
        found += several
        counts["state-unordered"] += how_many
    return found, +counts


def _unordered_keys(log: LogFrames, tables: list[tuple[TopicPartition, ...]]) -> tuple[list[Finding], int]:
    """Find keys of global tables that are in several partitions: the first findings, and their number.

    Args:
        tables: the changelog partitions of each.
    """
    view = log.view
    rows: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "state_end": view.state_end(tp), "of_table": number}
        for number, tps in enumerate(tables)
        for tp in tps
    ]
    places = (
        log.stamps.join(fn.broadcast(local_frame(log.lookups.spark, GLOBAL, rows)), list(TP))
        .transform(log.lookups.with_senders)
        .where(~fn.col("marker") & (fn.col("offset") < fn.col("state_end")) & is_white(view.epoch))
        .where(fn.col("key_hash").isNotNull())
        .groupBy("of_table", "key_hash", *TP)
        .agg(fn.max("offset").alias("offset"))
        .groupBy("of_table", "key_hash")
        .agg(fn.sort_array(fn.collect_list(fn.struct(*TP, "offset"))).alias("places"))
        .where(fn.size("places") > 1)
    )
    with kept(places) as found:
        first = found.orderBy(fn.col("places")[1]).limit(WITNESSES_MAX).collect()
        how_many = found.count() if len(first) == WITNESSES_MAX else len(first)
    return [state_unordered([Place(*place) for place in row.places]) for row in first], how_many


def key_facts(log: LogFrames, asked: dict[TopicPartition, StateFacts]) -> dict[TopicPartition, KeyFacts]:
    """Gather the key facts of the changelog partitions that are asked about."""
    view = log.view
    offset, earlier = fn.col("offset"), fn.col("offset") < fn.coalesce("first_later", "state_end")
    by_key = (
        _of_changelogs(log, asked)
        .where(fn.col("key_hash").isNotNull())
        .groupBy(*TP, "key_hash")
        .agg(
            fn.min(fn.when(fn.col("in_state"), offset)).alias("first"),
            fn.max(fn.when(fn.col("in_state") & earlier, offset)).alias("last"),
            fn.min(fn.when(_later(), offset)).alias("later"),
        )
        .where((fn.col("first") < fn.col("last")) | fn.col("first").isNull())
    )
    with kept(by_key) as found:
        pairs = found.groupBy(*TP).agg(fn.min("first").alias("superseded")).collect()
        overtaken = _overtaken(found)
    superseded = {
        TopicPartition(row.topic, row.partition): row.superseded
        for row in pairs
        if row.superseded is not None
    }
    there = log.still_there([ReadRange(*tp, at, at + 1) for tp, at in superseded.items()])
    ends = {TopicPartition(item.topic, item.partition): item.end for item in log.read}
    assert view.bounds is not None, "reading a log needs to know its bounds"
    return {
        tp: KeyFacts(
            superseded=superseded[tp] if tp in there else None,
            overtaken=overtaken.get(tp, ((), 0))[0],
            overtaken_found=overtaken.get(tp, ((), 0))[1],
            to_the_end=ends.get(tp, 0) >= view.bounds[tp].end,
        )
        for tp in asked
    }


def _overtaken(by_key: DataFrame) -> dict[TopicPartition, tuple[tuple[int, ...], int]]:
    """Return the first offsets of keys without a white value, and the number of these keys."""
    of_partition = Window.partitionBy(*TP)
    rows = (
        by_key.where(fn.col("first").isNull() & fn.col("later").isNotNull())
        .withColumn("found", fn.count("*").over(of_partition))
        .withColumn("nth", fn.row_number().over(of_partition.orderBy("later")))
        .where(fn.col("nth") <= WITNESSES_MAX)
        .orderBy("later")
        .collect()
    )
    found: dict[TopicPartition, tuple[tuple[int, ...], int]] = {}
    for row in rows:
        tp = TopicPartition(row.topic, row.partition)
        found[tp] = (*found.get(tp, ((), 0))[0], row.later), row.found
    return found


def _of_changelogs(log: LogFrames, asked: dict[TopicPartition, StateFacts]) -> DataFrame:
    """Return records of the changelogs that are `asked` about, with `state_end`, `first_later` and `in_state`."""
    view = log.view
    rows: list[dict[str, Any]] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "state_end": view.state_end(tp),
            "first_later": fact.first_later,
        }
        for tp, fact in sorted(asked.items())
    ]
    return (
        log.stamps.join(fn.broadcast(local_frame(log.lookups.spark, ENDS, rows)), list(TP))
        .transform(log.lookups.with_senders)
        .withColumn(
            "in_state",
            ~fn.col("marker") & (fn.col("offset") < fn.col("state_end")) & is_white(view.epoch),
        )
    )


def _later() -> Column:
    """Return whether a record was written after the cut: it is not part of its state, and no marker."""
    return ~fn.col("marker") & ~fn.col("in_state")


SEARCHES: Final = (
    Search(
        tuple(kind for kind in KINDS if kind.startswith("state-") and kind not in OF_STATE),
        "V3: key by key",
        find,
    ),
)
