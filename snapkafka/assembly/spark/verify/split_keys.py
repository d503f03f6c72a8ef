"""Keys in several partitions of a table, in Spark: the same findings as those of `snapkafka.checks.split_keys`.

Hashes of keys are compared first, so that two numbers per row are shuffled; keys are read only where hashes meet.
"""

from __future__ import annotations

import functools
import operator
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.meter import step
from snapkafka.assembly.spark.reading.session import kept
from snapkafka.checks import CutView, Finding
from snapkafka.checks.split_keys import KEYS_SHOWN, Place, SplitKey, state_split

TABLE: Final = ("app", "table_name", "changelog_topic")


def find(view: CutView, state: DataFrame) -> list[Finding]:
    """Find split keys in the table `state`: one finding for each table that has some."""
    if not view.keyed_tables:
        return []
    rows = state.where(_examined(view) & fn.col("key_raw").isNotNull()).withColumn(
        "hash", fn.xxhash64("key_raw")
    )
    with step(state.sparkSession, "V3: keys in several partitions"):
        suspects = (
            rows.groupBy(*TABLE, "hash")
            .agg(fn.min("partition").alias("least"), fn.max("partition").alias("most"))
            .where(fn.col("least") < fn.col("most"))
            .select(*TABLE, "hash")
        )
        with kept(suspects) as found:
            if found.isEmpty():
                return []
            first = _first_and_counts(rows.join(found, [*TABLE, "hash"], "left_semi")).collect()
    by_table: dict[tuple[str, str, str], list[Row]] = {}
    for row in first:
        by_table.setdefault((row.app, row.table_name, row.changelog_topic), []).append(row)
    return [state_split(*table, of[0].found, map(_key, of)) for table, of in sorted(by_table.items())]


def _examined(view: CutView) -> Column:
    tables = sorted(view.keyed_tables)
    return functools.reduce(
        operator.or_, ((fn.col("app") == app) & (fn.col("table_name") == table) for app, table in tables)
    )


def _first_and_counts(rows: DataFrame) -> DataFrame:
    """Return the first split keys of each table, in the order of their bytes, each with their number (`found`)."""
    of_table = Window.partitionBy(*TABLE)
    return (
        rows.groupBy(*TABLE, "key_raw")
        .agg(
            fn.first("key").alias("key"),
            fn.sort_array(fn.collect_list(fn.struct("partition", "changelog_offset"))).alias("places"),
        )
        .where(fn.size("places") > 1)
        .withColumn("found", fn.count("*").over(of_table))
        .withColumn("nth", fn.row_number().over(of_table.orderBy("key_raw")))
        .where(fn.col("nth") <= KEYS_SHOWN)
        .orderBy(*TABLE, "nth")
    )


def _key(row: Row) -> SplitKey:
    return SplitKey(bytes(row.key_raw), row.key, tuple(Place(*place) for place in row.places))
