"""Tables as Parquet files, with their digests: written by the task that has the rows, in either engine."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

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
    name: str, rows: Iterable[Mapping[str, Any]] | pa.Table, store: Store, folder: str, *, part: int = 0
) -> Written:
    """Write rows into a file of their own, in a folder of `Store.staging`: a task that is done twice writes two.

    Args:
        rows: in any order, or a table of Arrow in its order.
        part: the place of the rows among those of the table.

    Raises:
        StorageError: the storage cannot be written.
    """
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    path = f"{folder}/{name}/part-{part:05}-{uuid.uuid4().hex[:8]}.parquet"
    rows = rows if isinstance(rows, pa.Table) else arrow(name, list(rows))  # the rows as they were may go
    digest, file = 0, BytesIO()
    with pq.ParquetWriter(file, rows.schema, compression="snappy") as writer:
        for at in range(0, len(rows), GROUP_ROWS):
            digest += digest_of(group := rows.slice(at, GROUP_ROWS))
            writer.write_table(group)
    store.write(path, content := file.getvalue())
    return Written(path, len(content), hashlib.sha256(content).hexdigest(), len(rows), str(digest))


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
    encode, hashed, number = msgspec.msgpack.Encoder().encode, hashlib.blake2b, int.from_bytes
    rows = zip(*map(_plain, table.columns), strict=True)
    return sum(number(hashed(encode(row), digest_size=8).digest(), "big") for row in rows)


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
    """Return the rows of a table, in its order."""
    return in_order(name, pa.Table.from_pylist(rows, schema_of(name)))


def in_order(name: str, rows: pa.Table) -> pa.Table:
    """Return rows in the order of their table: as Spark sorts, nulls first, text by its bytes."""
    keys = [key for column in map(rows.column, SORTED_BY[name]) for key in (column.is_valid(), column)]
    by = [*map(str, range(len(keys)))]
    return rows.take(pc.sort_indices(pa.table(keys, by), sort_keys=[(it, "ascending") for it in by]))


@cache
def schema_of(name: str) -> pa.Schema:
    """Return the schema of a table; each column has its meaning as metadata."""
    return pa.schema(
        [it.with_metadata({"comment": comment(name, it.name)}) for it in arrow_schema(schema(name))]
    )
