"""Tables as Parquet files by pyarrow: the same columns, comments and order as Spark's.

The embedded engine writes every table so, and Spark's those whose rows Python has: a job would take longer.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.store import Folder, Store

from .arrow_schema import arrow_schema
from .schemas import SORTED_BY, comments, schema

#: Where Spark looks for its own form of a file's schema.
SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
#: The one file of a table.
FILE: Final = "part-00000.parquet"


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


def parquet_of(table: pa.Table) -> bytes:
    """Return the content of a file with these rows."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="snappy", use_deprecated_int96_timestamps=False)
    return buffer.getvalue()


def put(name: str, table: pa.Table, store: Store, folder: Folder) -> bytes:
    """Write a table as one file into a folder of `Store.staging`; return the content of the file.

    Raises:
        StorageError: the storage cannot be written.
    """
    content = parquet_of(table)
    store.put(folder, f"{name}/{FILE}", content)
    return content
