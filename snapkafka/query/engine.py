"""DuckDB with the tables of assembled snapshots as views.

The engine sees the files that manifests name and nothing else of this machine or any other, and only reads them. Its
settings are locked before it runs a user's SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from snapkafka.assembly.invariants import MAIN, opened, tables_at
from snapkafka.assembly.schemas import comment
from snapkafka.manifest import STATE, Manifest, TableEntry, state_table
from snapkafka.store import Store, sql_name, sql_text, state_parents

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The views over every snapshot of a storage, each with the table whose rows it has.
OVER_ALL: Final = {"all_state": STATE, "all_messages": "messages"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a query: seconds, and megabytes of memory (and as many of disk). It runs in a process of its own,
    which cannot exceed them whatever its SQL and its storage are."""

    seconds: float
    memory_mb: int


class Placed(NamedTuple):
    """A snapshot and its storage."""

    store: Store
    manifest: Manifest

    @property
    def tables(self) -> list[TableEntry]:
        """Its own tables, and those with rows of its state."""
        return [*self.manifest.tables, *map(state_table, self.parents)]

    @property
    def parents(self) -> tuple[Manifest, ...]:
        """The base of an incremental snapshot, oldest first."""
        return state_parents(self.store, self.manifest)


@contextmanager
def engine(
    snapshots: Mapping[str, Placed], bounds: Bounds | None = None, *, over_all: bool = False
) -> Iterator[DuckDBPyConnection]:
    """Provide DuckDB with the tables of snapshots as views.

    Args:
        snapshots: schema -> the snapshot with its tables.
        over_all: whether these are all of a storage, and have views over all of them.

    Raises:
        DependencyMissingError: DuckDB is not installed.
        StorageError: files are missing, or cannot be read.
    """
    settings: dict[str, str | bool | int] = {}
    if bounds is not None:
        settings = {
            "memory_limit": f"{bounds.memory_mb}MB",
            "max_temp_directory_size": f"{bounds.memory_mb}MB",
            "threads": 1,
        }
    tables = {schema: tables_at(it.store, it.manifest.tables, it.parents) for schema, it in snapshots.items()}

    with opened(tables, settings) as found:
        if over_all:
            _make_views_over_all(found, snapshots)
        _describe(found)
        yield found


def _describe(database: DuckDBPyConnection) -> None:
    """Comment on the columns; `duckdb_columns()` shows it."""
    found = database.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal"
    )
    for view, column in found.fetchall():
        text = sql_text(comment(OVER_ALL.get(view, view), column))
        database.execute(f"COMMENT ON COLUMN {sql_name(view)}.{sql_name(column)} IS {text}")


def _make_views_over_all(database: DuckDBPyConnection, snapshots: Mapping[str, Placed]) -> None:
    """Create `OVER_ALL` from the snapshots that are opened, each once, with the snapshot before the columns."""
    by_id = {snapshot.manifest.id: (schema, snapshot.manifest) for schema, snapshot in snapshots.items()}
    for view, table in OVER_ALL.items():
        rows = " UNION ALL BY NAME ".join(
            f"SELECT {sql_text(name)} AS snapshot_id, {manifest.epoch} AS epoch, "
            f"{sql_text(manifest.verdict)} AS verdict, * FROM {sql_name(schema)}.{sql_name(table)}"
            for name, (schema, manifest) in by_id.items()
        )
        database.execute(f"CREATE VIEW {sql_name(MAIN)}.{view} AS {rows}")
