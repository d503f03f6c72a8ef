"""SHA-256 of files, computed by Spark's tasks, so that no content is moved to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.meter import step
from snapkafka.manifest import FileEntry, TableEntry
from snapkafka.store import Store

#: Larger than this no task takes a file as one value: it is read piece by piece, here.
FILE_BYTES_MAX: Final = 1 << 30


def files(spark: SparkSession, folders: Mapping[str, str], sha256: Callable[[str], str]) -> list[FileEntry]:
    """Return the Parquet files in some folders, in order of their paths.

    Args:
        folders: path in a manifest -> place, as Spark takes it.
        sha256: computes that of a file that is too large for a task, by its path in a manifest.
    """
    with step(spark, "digests of the files"):
        found = _hashed(spark, list(folders.values())).collect()
    listed = {_tail(uri): path for path, uri in folders.items()}
    entries = []
    for place, size, digest in map(tuple, found):
        folder, _, name = place.rpartition("/")
        path = f"{listed[_tail(folder)]}/{name}"
        entries.append(FileEntry(path=path, bytes=size, sha256=digest or sha256(path)))
    return sorted(entries, key=lambda entry: entry.path)


def _tail(uri: str) -> str:
    """Return the part of a URI that distinguishes one folder of tables from another; Spark writes the part before it
    in more than one way."""
    return "/".join(uri.split("/")[-2:])


def files_of(spark: SparkSession, store: Store, tables: Iterable[TableEntry]) -> list[FileEntry]:
    """Return the files in the folders of these tables."""
    return files(spark, {table.path: store.spark_uri(table.path) for table in tables}, store.sha256)


def _hashed(spark: SparkSession, uris: list[str]) -> DataFrame:
    """Read the folders twice: the read without content never loads a file that is too large to be one value."""
    there = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(uris)
    whole = there.where(fn.col("length") <= FILE_BYTES_MAX).select("path", "length", fn.sha2("content", 256))
    large = there.where(fn.col("length") > FILE_BYTES_MAX).select("path", "length", fn.lit(""))
    return whole.unionAll(large)
