"""Tables as Parquet files, each written by the task of Spark's that has its rows: nothing is committed, as the manifest
names what counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql import DataFrame

from snapkafka.assembly.schemas import SORTED_BY, columns
from snapkafka.assembly.table_files import Written, entry_of, write_file
from snapkafka.manifest import TableEntry
from snapkafka.store import Store

from .reading.meter import step

#: A file for so many rows, at most: small tables are one file, large ones are written and read in parallel.
ROWS_PER_FILE: Final = 500_000
WRITTEN: Final = "path string, bytes bigint, sha256 string, rows bigint, digest string"


def write(table: DataFrame, name: str, store: Store, folder: str, *, rows_max: int) -> TableEntry:
    """Write a table into a folder of `Store.staging`; return its entry for the manifest.

    Args:
        rows_max: the upper bound of its rows.

    Raises:
        StorageError: the storage cannot be written.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if (first := next(batches, None)) is None:
            return
        context = TaskContext.get()
        assert context is not None, "this is a task"
        rows = (batch for some in ([first], batches) for batch in some)
        done = write_file(name, rows, store, folder, part=context.partitionId())
        yield pa.RecordBatch.from_pylist([done._asdict()])

    rows = _in_files(table.select(*columns(name)), name, rows_max)
    with step(table.sparkSession, f"table {name}"):
        files = [Written(*row) for row in rows.mapInArrow(task, WRITTEN).collect()]
    return entry_of(name, folder, files or [write_file(name, (), store, folder)])


def _in_files(table: DataFrame, name: str, rows_max: int) -> DataFrame:
    """Split a table into one task for each file. Sorting a large table takes as long as everything else that is done
    for its rows."""
    files = max(1, math.ceil(rows_max / ROWS_PER_FILE))
    return table.coalesce(files) if files > 1 else table.coalesce(1).sortWithinPartitions(*SORTED_BY[name])
