"""The digest that Spark gives a table is the one that is recomputed from its files without Spark."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from snapkafka.assembly import schema
from snapkafka.assembly.spark.write import parquet
from snapkafka.manifest import STATE_DELTA
from snapkafka.manifest_entries import TableEntry
from snapkafka.store import LocalStore, row_digest

pytestmark = pytest.mark.nightly

ROWS = 40
#: Together they have every type that a table has.
TABLES = (STATE_DELTA, "messages", "processes")


def some(kind: DataType, chance: random.Random, *, nulls: bool = True) -> Any:
    """A value of a type, one in six of them null."""
    if nulls and chance.random() < 0.17:
        return None
    match kind:
        case IntegerType():
            return chance.choice([0, -1, 2**31 - 1, -(2**31), chance.randrange(1_000)])
        case LongType():
            return chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(1 << 40)])
        case BooleanType():
            return chance.random() < 0.5
        case DoubleType():
            return chance.choice([0.0, -0.0, 1.5, -3e300, chance.random()])
        case StringType():
            return "".join(chance.choices("aé\u20ac\U0001f600 \x00", k=chance.choice([0, 1, 3, 9, 40])))
        case BinaryType():
            return chance.randbytes(chance.choice([0, 1, 5, 33, 70]))
        case TimestampType():
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=chance.randrange(1 << 42))
        case ArrayType():
            return [some(kind.elementType, chance) for _ in range(chance.randrange(4))]
        case MapType():
            keys = {some(kind.keyType, chance, nulls=False) for _ in range(chance.randrange(5))}
            return {key: some(kind.valueType, chance) for key in keys}
        case StructType():
            return tuple(some(field.dataType, chance) for field in kind.fields)
    raise AssertionError(kind)


def test_spark_and_the_files_give_the_same_digest(spark: SparkSession, tmp_path: Path) -> None:
    chance, store = random.Random(7), LocalStore(tmp_path)
    for name in TABLES:
        wanted = StructType.fromDDL(schema(name))
        rows = [tuple(some(field.dataType, chance) for field in wanted.fields) for _ in range(ROWS)]
        parquet.write(spark.createDataFrame(rows, wanted), name, store.root / "one", rows_max=ROWS)
    written = {name: parquet.read_back(spark, name, store.root / "one") for name in TABLES}
    sums = parquet.digests(written)
    for entry in parquet.entries(spark, store, store.root / "one", "one", written, sums):
        assert entry.rows == ROWS
        assert digest_of(entry, tmp_path) == (ROWS, entry.digest), entry.name
        assert digest_of(without_a_column(entry), tmp_path)[1] != entry.digest


def digest_of(entry: TableEntry, folder: Path) -> tuple[int, str]:
    """By its files, as the embedded engine computes it from what it writes."""
    names = [column.name for column in entry.schema]
    found = pq.read_table([folder / file.path for file in entry.files], partitioning=None, columns=names)
    rows = zip(*(found.column(name).to_pylist() for name in names), strict=True)
    return row_digest([column.type for column in entry.schema], iter(rows))


def without_a_column(entry: TableEntry) -> TableEntry:
    return dataclasses.replace(entry, schema=entry.schema[:-1])
