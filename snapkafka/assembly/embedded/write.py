"""Tables of the embedded engine: their entries in the manifest, rows and digests, which are Spark's."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from snapkafka.assembly.arrow_tables import FILE, columns_of, put
from snapkafka.manifest import Column, FileEntry, TableEntry
from snapkafka.store import Folder, RemoteFolder, Store
from snapkafka.store.row_digests import row_digest


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


def write(name: str, table: pa.Table, store: Store, folder: Folder, stem: str) -> TableEntry:
    """Write a table into a folder of `Store.staging`; return its entry for the manifest.

    Args:
        stem: the folder of the snapshot, relative to the storage, in which local ones will be.

    Raises:
        StorageError: the storage cannot be written.
    """
    content = put(name, table, store, folder)
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


def digest(name: str, table: pa.Table) -> tuple[int, str]:
    """Return the number of rows of a table, and their order-free digest."""
    return row_digest([kind for _, kind in columns_of(name)], iter(values(table)))


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
