"""Tables as Parquet files, their entries in the manifest, and their digests."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.schemas import SORTED_BY, comments, schema
from snapkafka.assembly.spark.reading.meter import step
from snapkafka.errors import StorageError
from snapkafka.manifest import Column, FileEntry, TableEntry
from snapkafka.store import Folder, RemoteFolder, Store
from snapkafka.store.local import spark_uri

from . import file_hashes, s3_commit

#: A file for so many rows, at most: small tables are one file, large ones are written and read in parallel.
ROWS_PER_FILE: Final = 500_000


def write(table: DataFrame, name: str, folder: Folder, *, rows_max: int) -> None:
    """Write a table into `folder`/`name`; in a local one as `part-00000.parquet` and on.

    Args:
        rows_max: the upper bound of its rows.

    Raises:
        StorageError: the folder cannot be written.
    """
    rows = _in_files(_with_comments(table, name), name, rows_max)
    with step(table.sparkSession, f"table {name}"):
        if isinstance(folder, RemoteFolder):
            s3_commit.spread(rows).write.parquet(f"{folder.uri}/{name}")
            return
        place = folder / name
        rows.write.parquet(spark_uri(place))
    try:
        parts = sorted(place.glob("part-*.parquet"))
        for other in set(place.iterdir()) - set(parts):  # checksums and flags of the committer
            other.unlink()
        for number, part in enumerate(parts):
            part.rename(place / f"part-{number:05}.parquet")
    except OSError as error:
        raise StorageError(f"storage {place} cannot be written: {error.strerror}") from error


def _with_comments(table: DataFrame, name: str) -> DataFrame:
    """Return the table with the meaning of its columns, which Spark writes into the files and reads again."""
    return table.select(
        *(fn.col(f"`{it}`").alias(it, metadata={"comment": text}) for it, text in comments(name).items())
    )


def _in_files(table: DataFrame, name: str, rows_max: int) -> DataFrame:
    """Split a table into one task for each file. Sorting a large table takes as long as everything else that is done
    for its rows."""
    files = max(1, math.ceil(rows_max / ROWS_PER_FILE))
    return table.coalesce(files) if files > 1 else table.coalesce(1).sortWithinPartitions(*SORTED_BY[name])


def read_back(spark: SparkSession, name: str, folder: Folder) -> DataFrame:
    """Read the table as it was written."""
    place = f"{folder.uri}/{name}" if isinstance(folder, RemoteFolder) else spark_uri(folder / name)
    return read(spark, name, place)


def read(spark: SparkSession, name: str, uri: str) -> DataFrame:
    """Read a table by its folder."""
    return spark.read.schema(schema(name)).parquet(uri)


def digests(tables: Mapping[str, DataFrame]) -> dict[str, tuple[int, str]]:
    """Compute per table the number of rows, and a digest that does not depend on their order: the sum of a hash of
    each.

    This takes one job for all of them.
    """
    file_hashes = [
        table.select(fn.lit(name).alias("name"), row_hash(table).alias("hash"))
        for name, table in tables.items()
    ]
    sums = (
        functools.reduce(DataFrame.unionByName, file_hashes)
        .groupBy("name")
        .agg(
            fn.count("*").alias("rows"),
            fn.sum(fn.col("hash").cast("decimal(20,0)")).cast("string").alias("digest"),
        )
    )
    with step(sums.sparkSession, "digests of the tables"):
        rows = sums.collect()
    return dict.fromkeys(tables, (0, "0")) | {row["name"]: (row["rows"], row["digest"]) for row in rows}


def row_hash(table: DataFrame) -> SparkColumn:
    """Hash all columns to 64 bits. Nulls leave a hash as it is, so each value is preceded by the number of its
    column."""
    values: list[SparkColumn] = []
    for number, (name, kind) in enumerate(table.dtypes):
        column = fn.col(name)
        if kind.startswith("map"):  # which have no order of their own, and cannot be hashed
            column = fn.array_sort(fn.map_entries(column))
        values += [fn.lit(number), column]
    return fn.xxhash64(*values)


def entries(
    spark: SparkSession,
    store: Store,
    folder: Folder,
    stem: str,
    written: Mapping[str, DataFrame],
    sums: Mapping[str, tuple[int, str]],
) -> tuple[TableEntry, ...]:
    """Return the entries about tables for the manifest.

    Args:
        folder: their present folder.
        stem: the folder of the snapshot, relative to the storage, in which local ones will be.
        sums: the result of `digests`.
    """
    if isinstance(folder, RemoteFolder):
        stem = folder.path
        places = {f"{stem}/{name}": f"{folder.uri}/{name}" for name in written}
        files = file_hashes.files(spark, places, store.sha256)
    else:
        files = [entry for name in written for entry in _files(folder / name, f"{stem}/{name}")]
    return tuple(
        TableEntry(
            name=name,
            path=f"{stem}/{name}",
            rows=sums[name][0],
            digest=sums[name][1],
            schema=tuple(Column(name=column, type=kind) for column, kind in table.dtypes),
            files=tuple(file for file in files if file.path.rpartition("/")[0] == f"{stem}/{name}"),
        )
        for name, table in written.items()
    )


def _files(place: Path, path: str) -> list[FileEntry]:
    """Return the entries of the files of a local table; `path` is that of the table in a manifest."""
    found = []
    for file in sorted(place.iterdir()):
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        found.append(FileEntry(path=f"{path}/{file.name}", bytes=file.stat().st_size, sha256=sha256))
    return found
