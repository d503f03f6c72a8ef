"""The stored tables of a snapshot beside those that its log gives, by Spark (`assembly.stored_tables`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.meter import step
from snapkafka.assembly.spark.write import parquet
from snapkafka.assembly.stored_tables import DECODED, PLACE, Compared, OnlyThere, outcome_of
from snapkafka.checks import WITNESSES_MAX, CheckOutcome


def compare(
    spark: SparkSession,
    stored: Mapping[str, DataFrame],
    computed: Mapping[str, DataFrame],
    outcomes: Collection[CheckOutcome],
) -> CheckOutcome:
    """Compare the stored tables of a snapshot with those that its log gives.

    Args:
        stored: of an incremental snapshot with the whole `state`.
        computed: the same tables, from the log.
        outcomes: of the checks of the log.
    """
    with step(spark, "tables: digests of stored and computed"):
        sums = parquet.digests(
            {
                f"{side} {what} {name}": table if what == "all" else table.drop(*DECODED)
                for side, tables in (("stored", stored), ("computed", computed))
                for name, table in tables.items()
                for what in ("all", "bytes")
            }
        )
    compared = [
        Compared(
            name,
            sums[f"stored all {name}"] == sums[f"computed all {name}"],
            sums[f"stored bytes {name}"] == sums[f"computed bytes {name}"],
            partial(_differences, spark, name, stored[name], computed[name]),
        )
        for name in stored
    ]
    return outcome_of(compared, outcomes)


def _differences(
    spark: SparkSession, name: str, stored: DataFrame, computed: DataFrame
) -> tuple[OnlyThere, OnlyThere]:
    """Return the rows that only one of two tables has."""
    with step(spark, f"tables: rows of {name}"):
        return _only(name, stored, computed), _only(name, computed, stored)


def _only(name: str, one: DataFrame, other: DataFrame) -> OnlyThere:
    only = _hashed(one).join(_hashed(other).select("_hash", "_times"), ["_hash", "_times"], "left_anti")
    rows = only.orderBy("_row").limit(WITNESSES_MAX + 1).collect()
    first = []
    for row in rows[:WITNESSES_MAX]:
        topic, partition, offset = (row[column] for column in PLACE[name]) if name in PLACE else (None,) * 3
        first.append((row["_row"], (topic, partition, offset)))
    return OnlyThere(len(rows) if len(rows) <= WITNESSES_MAX else only.count(), first)


def _hashed(table: DataFrame) -> DataFrame:
    """Return rows as JSON, each with a hash and the number of equal rows."""
    row = fn.to_json(fn.struct(*table.columns))
    return (
        table.withColumns({"_hash": parquet.row_hash(table), "_row": row})
        .groupBy("_hash")
        .agg(fn.count("*").alias("_times"), fn.first("_row").alias("_row"), *_places(table))
    )


def _places(table: DataFrame) -> list[Column]:
    names = {name: None for place in PLACE.values() for name in place if name in table.columns}
    return [fn.first(name).alias(name) for name in names]
