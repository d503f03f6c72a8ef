"""Tables as Parquet files, with their digests: written by the task that has the rows, in either engine."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from snapkafka.manifest import Column, FileEntry, TableEntry
from snapkafka.store import Store

from .arrow_schema import arrow_schema
from .schemas import SORTED_BY, columns, comment, schema

#: Rows of a group in a Parquet file.
GROUP_ROWS: Final = 50_000


class _NoPandas:
    """A finder by which pandas is not found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


if "pandas" not in sys.modules:
    # pyarrow decides now that it takes lists without pandas: importing that takes longer than a small snapshot.
    sys.meta_path.insert(0, _NoPandas())
    pa.array([])
    del sys.meta_path[0]


class Written(NamedTuple):
    """A file: its path, size and SHA-256; the number of its rows, and the sum of their digests."""

    path: str
    bytes: int
    sha256: str
    rows: int
    digest: str


# -- writing --------------------------------------------------------------------------------------------------


def write_rows(
    name: str, rows: Iterable[Mapping[str, Any]], store: Store, folder: str, *, part: int = 0
) -> Written:
    """Write rows into a file of their own, in a folder of `Store.staging`: a task that is done twice writes two. Those
    of a small table are written in order, others as they come.

    Args:
        part: the place of the rows among those of the table.

    Raises:
        StorageError: the storage cannot be written.
    """
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    path, wanted = f"{folder}/{name}/part-{part:05}-{uuid.uuid4().hex[:8]}.parquet", schema_of(name)
    count, digest, rows, file = 0, 0, iter(rows), BytesIO()
    with pq.ParquetWriter(file, wanted, compression="snappy") as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            table = arrow(name, group) if not count else pa.Table.from_pylist(group, schema=wanted)
            count, digest = count + len(table), digest + digest_of(table)
            writer.write_table(table)
    store.write(path, content := file.getvalue())
    return Written(path, len(content), hashlib.sha256(content).hexdigest(), count, str(digest))


def entry_of(name: str, folder: str, files: Sequence[Written]) -> TableEntry:
    """Return the entry of a table that consists of these files."""
    return TableEntry(
        name=name,
        path=f"{folder}/{name}",
        rows=sum(file.rows for file in files),
        digest=str(sum(int(file.digest) for file in files)),
        schema=tuple(Column(name=column, type=kind) for column, kind in columns(name).items()),
        files=tuple(
            FileEntry(path=file.path, bytes=file.bytes, rows=file.rows, sha256=file.sha256)
            for file in sorted(files)
        ),
    )


# -- digests --------------------------------------------------------------------------------------------------


def digest_of(table: pa.Table) -> int:
    """Compute the digest of rows, in any order: the sum of a 64-bit hash of each."""
    encode = msgspec.msgpack.Encoder().encode
    rows = zip(*map(_plain, table.columns), strict=True)
    return sum(int.from_bytes(hashlib.blake2b(encode(row), digest_size=8).digest(), "big") for row in rows)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: times as microseconds, the entries of a map in order."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else sorted(value, key=lambda pair: pair[0]) for value in values]
    return values


# -- Arrow ----------------------------------------------------------------------------------------------------


def arrow(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of a table, in its order: as Spark sorts, nulls first, text by its bytes."""

    def place(row: Mapping[str, Any]) -> list[tuple[bool, Any]]:
        values = map(row.get, SORTED_BY[name])
        return [(it is not None, it.encode() if isinstance(it, str) else it) for it in values]

    return pa.Table.from_pylist(sorted(rows, key=place), schema=schema_of(name))


def schema_of(name: str) -> pa.Schema:
    """Return the schema of a table; each column has its meaning as metadata."""
    return pa.schema(
        [it.with_metadata({"comment": comment(name, it.name)}) for it in arrow_schema(schema(name))]
    )
