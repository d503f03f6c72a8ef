"""Tables as Parquet files by pyarrow: the same columns, order and digests as Spark's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.schemas import SORTED_BY, comments, schema
from snapkafka.errors import StorageError
from snapkafka.manifest import Column, FileEntry, TableEntry
from snapkafka.store.row_digests import row_digest

#: Where Spark looks for its own form of a file's schema.
SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
#: The one file of a table.
FILE: Final = "part-00000.parquet"


def columns_of(name: str) -> list[tuple[str, str]]:
    """Return the columns of a table, each with its type."""
    return [(column, kind) for column, kind in (part.split(" ", 1) for part in schema(name).split(", "))]


def arrow(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows of a table, in its order."""
    texts = comments(name)
    wanted = pa.schema(
        [field.with_metadata({"comment": texts[field.name]}) for field in arrow_schema(schema(name))],
        metadata={SPARK_SCHEMA: _spark_schema(name)},
    )
    ordered = sorted(rows, key=lambda row: [_in_order(row.get(column)) for column in SORTED_BY[name]])
    return pa.Table.from_pylist(list(ordered), schema=wanted)


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


def write(name: str, table: pa.Table, folder: Path, stem: str) -> TableEntry:
    """Write a table into `folder`/`name`; return its entry for the manifest.

    Args:
        stem: the folder of the snapshot, relative to the storage.

    Raises:
        StorageError: the folder cannot be written.
    """
    place = folder / name / FILE
    try:
        place.parent.mkdir()
        pq.write_table(table, place, compression="snappy", use_deprecated_int96_timestamps=False)
        content = place.read_bytes()
    except OSError as error:
        raise StorageError(f"storage {place} cannot be written: {error.strerror or error}") from error
    columns = columns_of(name)
    rows, digest = row_digest([kind for _, kind in columns], iter(_values(table)))
    return TableEntry(
        name=name,
        path=f"{stem}/{name}",
        rows=rows,
        digest=digest,
        schema=tuple(Column(name=column, type=kind) for column, kind in columns),
        files=(
            FileEntry(
                path=f"{stem}/{name}/{FILE}", bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
            ),
        ),
    )


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
