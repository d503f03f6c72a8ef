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
#: In the names of their schemas. DuckDB takes no two names that differ in case alone, so these are no ids.
OF_ALL: Final = "all\n"


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
def engine(snapshots: Mapping[str, Placed], bounds: Bounds | None = None) -> Iterator[DuckDBPyConnection]:
    """Provide DuckDB with the tables of snapshots, by their schemas, as views.

    Raises:
        DependencyMissingError: DuckDB is not installed.
        StorageError: files are missing, or cannot be read.
    """
    settings: dict[str, str | bool | int] = {}
    if bounds is not None:
        most = f"{bounds.memory_mb}MB"
        settings = {"memory_limit": most, "max_temp_directory_size": most, "threads": 1}
    tables = {schema: tables_at(it.store, it.manifest.tables, it.parents) for schema, it in snapshots.items()}

    with opened(tables, settings) as found:
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
    """Create `OVER_ALL`, with the snapshot before the columns, if all of a storage are opened."""
    by_id = {it.manifest.id: (schema, it.manifest) for schema, it in snapshots.items() if OF_ALL in schema}
    for view, table in OVER_ALL.items() if by_id else ():
        rows = " UNION ALL BY NAME ".join(
            f"SELECT {sql_text(name)} AS snapshot_id, {manifest.epoch} AS epoch, "
            f"{sql_text(manifest.verdict)} AS verdict, * FROM {sql_name(schema)}.{sql_name(table)}"
            for name, (schema, manifest) in by_id.items()
        )
        database.execute(f"CREATE VIEW {sql_name(MAIN)}.{view} AS {rows}")
