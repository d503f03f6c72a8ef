"""DuckDB with the tables of assembled snapshots as views.

The engine sees the files that manifests name and nothing else of this machine or any other, and only reads them. Its
settings are locked before it runs a user's SQL.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from snapkafka.assembly.invariants import MAIN, opened, tables_at
from snapkafka.assembly.schemas import comment
from snapkafka.errors import BadInputError
from snapkafka.manifest import STATE, Manifest, TableEntry, state_table
from snapkafka.store import Store, sql_name, sql_text, state_parents
from snapkafka.store.database import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: How often a query is interrupted, until it has ended.
INTERRUPT_EVERY_S: Final = 0.1

#: The views over every snapshot of a storage, each with the table whose rows it has.
OVER_ALL: Final = {"all_state": STATE, "all_messages": "messages"}
#: Columns whose names are words of SQL, which DuckDB takes for columns in double quotes alone; not as in LEFT JOIN.
WORD: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\b(offset)\b(?!\s+(?:\d|\$|\())|\b(left)\b(?!\s*(?:\(|(?:\w+\s+)?join\b))""",
    re.IGNORECASE,
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a query: seconds, megabytes of memory (and as many of disk), threads. It runs in a process of its
    own, which cannot exceed them whatever its SQL and its storage are."""

    seconds: float
    memory_mb: int
    threads: int = 1


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
            "threads": bounds.threads,
        }
    tables = {schema: tables_at(it.store, it.manifest.tables, it.parents) for schema, it in snapshots.items()}

    def prepare(database: DuckDBPyConnection) -> None:
        if over_all:
            _make_views_over_all(database, snapshots)
        _describe(database)

    with opened(tables, settings, prepare) as found:
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


def refused(error: Exception, sql: str = "") -> BadInputError:
    """Build the error of a query that DuckDB refuses."""
    text, hint = one_line(error), "keys and values are text; SHOW TABLES and DESCRIBE state list what exists"
    word = next((found[1] or found[2] for found in WORD.finditer(sql) if found[1] or found[2]), "")
    if word and re.search("syntax error", text):
        hint = f'{word.lower()} is a word of SQL: the column is written in double quotes, "{word.lower()}"'
    return BadInputError(f"the query failed: {text}", hint=hint)


async def in_thread(database: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Run work in a thread, so that Ctrl-C does not wait for it: a caller that gives up ends the query."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # one that comes before the query has started has no effect
            database.interrupt()
            await asyncio.wait([task], timeout=INTERRUPT_EVERY_S)
        if not task.cancelled():
            task.exception()  # the interruption that was asked for; asyncio would log it
        raise
