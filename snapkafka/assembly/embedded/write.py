"""Tables as Parquet files by pyarrow: the same columns, order and digests as Spark's."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.schemas import SORTED_BY, comments, schema
from snapkafka.manifest import Column, FileEntry, TableEntry
from snapkafka.store import Folder, RemoteFolder, Store
from snapkafka.store.row_digests import row_digest

from .json_text import Map

#: Where Spark looks for its own form of a file's schema.
SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
#: The one file of a table.
FILE: Final = "part-00000.parquet"


class _NoPandas:
    """A finder by which pandas is not found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def _without_pandas() -> None:
    """Let pyarrow decide that it takes lists without pandas: importing that takes longer than a small snapshot."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, finder := _NoPandas())
        try:
            pa.array([])
        finally:
            sys.meta_path.remove(finder)


_without_pandas()


def columns_of(name: str) -> list[tuple[str, str]]:
    """Return the columns of a table, each with its type."""
    return [(column, kind) for column, kind in (part.split(" ", 1) for part in schema(name).split(", "))]


def arrow(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of a table, in its order."""
    ordered = sorted(rows, key=lambda row: [_in_order(row.get(column)) for column in SORTED_BY[name]])
    return pa.Table.from_pylist(list(ordered), schema=schema_of(name))


def schema_of(name: str) -> pa.Schema:
    """Return the schema of a table."""
    texts = comments(name)
    return pa.schema(
        [field.with_metadata({"comment": texts[field.name]}) for field in arrow_schema(schema(name))],
        metadata={SPARK_SCHEMA: _spark_schema(name)},
    )


def _in_order(value: Any) -> tuple[bool, Any]:
    """Return the key by which Spark sorts: nulls first, text by its bytes."""
    return value is not None, value.encode() if isinstance(value, str) else value


def _spark_schema(name: str) -> str:
    """Return the columns of a table with their comments as Spark writes them into a file, and reads them there."""
    fields = [_spark_field(it, kind, {"comment": comments(name)[it]}) for it, kind in columns_of(name)]
    return json.dumps({"type": "struct", "fields": fields})


def _spark_field(name: str, kind: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "type": _spark_type(kind), "nullable": True, "metadata": metadata}


def _spark_type(kind: str) -> Any:
    if found := re.fullmatch(r"array<(.*)>", kind):
        return {"type": "array", "elementType": _spark_type(found[1]), "containsNull": True}
    if found := re.fullmatch(r"map<(.*),(.*)>", kind):
        key, value = map(_spark_type, found.groups())
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if found := re.fullmatch(r"struct<(.*)>", kind):
        fields = (part.split(":", 1) for part in found[1].split(","))
        return {"type": "struct", "fields": [_spark_field(name, of, {}) for name, of in fields]}
    return {"int": "integer", "bigint": "long"}.get(kind, kind)


def write(name: str, table: pa.Table, store: Store, folder: Folder, stem: str) -> TableEntry:
    """Write a table into a folder of `Store.staging`; return its entry for the manifest.

    Args:
        stem: the folder of the snapshot, relative to the storage, in which local ones will be.

    Raises:
        StorageError: the storage cannot be written.
    """
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="snappy", use_deprecated_int96_timestamps=False)
    content = buffer.getvalue()
    store.put(folder, f"{name}/{FILE}", content)
    path = f"{folder.path if isinstance(folder, RemoteFolder) else stem}/{name}"
    columns = columns_of(name)
    rows, of_rows = digest(name, table)
    return TableEntry(
        name=name,
        path=path,
        rows=rows,
        digest=of_rows,
        schema=tuple(Column(name=column, type=kind) for column, kind in columns),
        files=(
            FileEntry(path=f"{path}/{FILE}", bytes=len(content), sha256=hashlib.sha256(content).hexdigest()),
        ),
    )


def rows_of(name: str, table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table by column, with its maps as such."""
    maps = [column for column, kind in columns_of(name) if kind.startswith("map<")]
    found: list[dict[str, Any]] = table.to_pylist()
    for row in found:
        row.update({column: Map(row[column]) for column in maps if row[column] is not None})
    return found


def digest(name: str, table: pa.Table, leave: Collection[str] = ()) -> tuple[int, str]:
    """Return the number of rows of a table, and their order-free digest.

    Args:
        leave: columns that do not count.
    """
    kept = [(column, kind) for column, kind in columns_of(name) if column not in leave]
    return row_digest([kind for _, kind in kept], iter(values(table.select([column for column, _ in kept]))))


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
