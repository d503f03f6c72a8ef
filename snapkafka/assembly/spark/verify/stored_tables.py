"""`verify --tables`: the stored tables, compared with those computed from the log.

The tables are computed again from the log, and compared with the stored ones by their order-free digests; rows are
compared only if these differ. Decoded keys and values depend on options (codecs, schemas) that no manifest holds, so
the bytes are compared separately: other bytes contradict the log, other texts of the same bytes leave it open. A log
that no longer shows all of a table (V3, V4) contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.meter import step
from snapkafka.assembly.spark.write import parquet
from snapkafka.checks import WITNESSES_MAX, CheckOutcome, Status, Witness
from snapkafka.manifest import STATE

#: As it is called among the other checks.
CHECK: Final = "tables"
#: Columns that depend on how keys and values are decoded.
DECODED: Final = frozenset({"key", "value", "why_undecoded", "window_start", "window_end"})
#: Which check proves that the log still holds all of a table.
PROVEN_BY: Final[Mapping[str, str]] = {STATE: "V3", "messages": "V4", "channels": "V4"}
#: Where the record of a row lies: topic, partition, offset.
PLACE: Final[Mapping[str, tuple[str, str, str]]] = {
    STATE: ("changelog_topic", "partition", "changelog_offset"),
    "messages": ("topic", "partition", "offset"),
}


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
    passed = {found.check for found in outcomes if found.status is Status.PASSED}
    with step(spark, "tables: digests of stored and computed"):
        sums = parquet.digests(
            {
                f"{side} {what} {name}": table if what == "all" else table.drop(*DECODED)
                for side, tables in (("stored", stored), ("computed", computed))
                for name, table in tables.items()
                for what in ("all", "bytes")
            }
        )
    found, statuses, witnesses = 0, {Status.PASSED}, list[Witness]()
    for name in stored:
        if sums[f"stored all {name}"] == sums[f"computed all {name}"]:
            continue
        same_bytes = sums[f"stored bytes {name}"] == sums[f"computed bytes {name}"]
        open_question = same_bytes or PROVEN_BY.get(name, "V3") not in passed
        statuses.add(Status.UNVERIFIABLE if open_question else Status.FAILED)
        count, rows = _differences(spark, name, stored[name], computed[name], same_bytes=same_bytes)
        found += count
        witnesses += rows
    status = next(s for s in (Status.FAILED, Status.UNVERIFIABLE, Status.PASSED) if s in statuses)
    return CheckOutcome(check=CHECK, status=status, found=found, witnesses=tuple(witnesses[:WITNESSES_MAX]))


def _differences(
    spark: SparkSession, name: str, stored: DataFrame, computed: DataFrame, *, same_bytes: bool
) -> tuple[int, list[Witness]]:
    """Return the number of rows that only one of two tables has, and the first of them."""
    why = "" if not same_bytes else (
        "; its bytes are the same: either it was altered, or it was assembled with other codecs, schemas or registry, "
        "or another choice about pickles"
    )  # fmt: skip
    count, witnesses = 0, list[Witness]()
    with step(spark, f"tables: rows of {name}"):
        for what, one, other in (
            (f"stored table {name} has a row that the log does not give", stored, computed),
            (f"stored table {name} lacks a row that the log gives", computed, stored),
        ):
            only = _hashed(one).join(
                _hashed(other).select("_hash", "_times"), ["_hash", "_times"], "left_anti"
            )
            rows = only.limit(WITNESSES_MAX + 1).collect()
            count += len(rows) if len(rows) <= WITNESSES_MAX else only.count()
            witnesses += _witnesses(name, f"{what}{why}", rows[:WITNESSES_MAX])
    return max(1, count), witnesses


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


def _witnesses(name: str, what: str, rows: Collection[Row]) -> Iterator[Witness]:
    for row in rows:
        topic, partition, offset = (row[column] for column in PLACE[name]) if name in PLACE else ("", -1, -1)
        yield Witness(
            check=CHECK,
            topic=topic or "",
            partition=-1 if partition is None else partition,
            offset=-1 if offset is None else offset,
            what=f"{what}: {row['_row'][:300]}",
        )
