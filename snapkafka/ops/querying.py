"""`query`: SQL on the tables of assembled snapshots, by DuckDB on their Parquet files, without broker or Spark.

The engine sees the files that manifests name and nothing else of this machine or any other, and only reads them: it
runs one SELECT at a time. Its settings are locked before it meets SQL of a user's.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from snapkafka.errors import BadInputError, StorageError
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.reading import LATEST
from snapkafka.manifest import STATE, Manifest, TableEntry, state_table
from snapkafka.ports import Cluster
from snapkafka.runtime.extras import extra_missing, require_extra
from snapkafka.store import Store, read_manifest, state_parents, state_sql

from .finding import manifest_places
from .query_apart import Bounds, select_apart, too_long
from .trusting import Trust, compared_with_ledger, compared_with_manifest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = [
    "Placed",
    "Queried",
    "engine",
    "in_thread",
    "named_in",
    "one_line",
    "query",
    "select",
    "trusted",
]

#: What a name of a schema looks like in SQL: it stands before a dot, in quotes or without. No id is longer, and without
#: a bound the search takes as long as the square of the SQL's length.
SCHEMA_NAME: Final = re.compile(r'(?:"((?:[^"]|""){1,200})"|(?<!\w)(\w{1,200}))\s*\.')

#: How often a query is told to end, until it has.
INTERRUPT_EVERY_S: Final = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """Hold what a query found, in values that JSON has: bytes as hex digits, times as ISO 8601, in UTC.

    `id`, `epoch`, `verdict` are those of the snapshot whose tables need no schema. `more`: there are more `rows`.
    `trust`: what was compared with what before it was read.
    """

    id: str
    epoch: int
    verdict: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    more: bool
    trust: Trust


async def query(
    where: Connection | Cluster | None,
    namespace: str,
    sql: str,
    *,
    name: str = LATEST,
    manifest: str = "",
    storage: str = "",
    rows_max: int | None = None,
    unchecked: bool = False,
    bounds: Bounds | None = None,
) -> Queried:
    """Run a SELECT. The tables of the snapshot are views `state`, `messages` and so on; those of every other one in the
    same storage are there as well, with its id for a schema: `"friday".state`.

    Args:
        where: not needed with `storage` or `manifest`.
        name: id, epoch or `latest`, the last one that is good.
        manifest: the manifest itself.
        rows_max: no more rows than these; None: all.
        unchecked: do not compare the files with the manifest.
        bounds: what it may take of this machine; None: what DuckDB takes by itself.

    Raises:
        TimedOutError: it ran longer than `bounds` allow.
        BadInputError: the SQL is not one, or no SELECT, or fails.
        StorageError: files are missing, cannot be read, or are not those that were written; the manifest is not the one
            that was verified.
        DependencyMissingError: DuckDB is not installed.
    """
    require_extra("query", "a query")
    if manifest:
        place = manifest
    else:
        (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    store, found = read_manifest(place)
    snapshots = named_in(sql, store, found)
    trust = await trusted(where, snapshots.values(), unchecked=unchecked)
    if bounds is not None and bounds.apart:
        columns, rows = await select_apart(place, sql, rows_max, bounds)
    else:
        with engine(snapshots, bounds) as database:
            work = in_thread(database, lambda: select(database, sql, rows_max))
            try:
                async with asyncio.timeout(bounds.seconds if bounds else None):
                    columns, rows = await work
            except TimeoutError:
                assert bounds is not None, "nothing else has a time-out"
                raise too_long(bounds) from None
    return Queried(
        id=found.id,
        epoch=found.epoch,
        verdict=found.verdict,
        columns=columns,
        rows=tuple(rows[:rows_max]),
        more=rows_max is not None and len(rows) > rows_max,
        trust=trust,
    )


async def trusted(
    where: Connection | Cluster | None, snapshots: Iterable[Placed], *, unchecked: bool
) -> Trust:
    """Compare the files of snapshots with their manifests, and these with the ledger where a broker is given.

    Raises:
        StorageError: something is not as it was written.
    """
    snapshots = tuple(snapshots)
    of_manifests = [(item.store, part) for item in snapshots for part in (item.manifest, *item.parents)]
    not_compared = await compared_with_ledger(where, of_manifests)
    files, told = 0, dict.fromkeys(not_compared)
    for item in snapshots:
        found = await asyncio.to_thread(compared_with_manifest, item.store, item.tables, unchecked=unchecked)
        files += found.files
        told |= dict.fromkeys(found.not_compared)
    return Trust(files=files, not_compared=tuple(told))


def named_in(sql: str, store: Store, found: Manifest) -> dict[str, Placed]:
    """Return the snapshots of a storage whose ids stand in a query as schemas, and as `main` its own. All others are
    left alone: there may be thousands."""
    names = {quoted.replace('""', '"') or plain for quoted, plain in SCHEMA_NAME.findall(sql)}
    named = {name: Placed(store, store.read(name)) for name in sorted(names) if store.has(name)}
    return named | {"main": Placed(store, found)}


def select(
    database: DuckDBPyConnection, sql: str, rows_max: int | None
) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
    """Return the columns and rows of a SELECT; one row more than `rows_max`, where there is one."""
    import duckdb

    try:
        statements = database.extract_statements(sql)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise BadInputError(
                "that is not one SELECT", hint="nothing is ever changed here; ask one thing at a time"
            )
        done = database.execute(statements[0])
        columns = _unique(column[0] for column in done.description)
        rows = done.fetchall() if rows_max is None else done.fetchmany(rows_max + 1)
    except duckdb.IOException as error:
        raise StorageError(f"the tables cannot be read: {one_line(error)}") from error
    except duckdb.Error as error:
        raise _refused(error) from error
    return columns, [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    """A join may give the same name to several columns: `key`, `key_1`."""
    found: list[str] = []
    for name in names:
        more = (f"{name}_{number}" for number in itertools.count(1))
        found.append(next(unique for unique in itertools.chain([name], more) if unique not in found))
    return tuple(found)


def _plain(value: Any) -> Any:
    """A value of DuckDB's as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
        case _:
            return str(value)


# -- the engine -----------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A snapshot, and the storage that it lies in."""

    store: Store
    manifest: Manifest

    @property
    def tables(self) -> list[TableEntry]:
        """Its own, and those with rows of its state."""
        return [*self.manifest.tables, *map(state_table, self.parents)]

    @property
    def parents(self) -> tuple[Manifest, ...]:
        """The snapshots that an incremental one builds on, oldest first."""
        return state_parents(self.store, self.manifest)


@contextmanager
def engine(snapshots: Mapping[str, Placed], bounds: Bounds | None = None) -> Iterator[DuckDBPyConnection]:
    """DuckDB with the tables of snapshots as views.

    Args:
        snapshots: schema -> the snapshot whose tables it has.

    Raises:
        DependencyMissingError: DuckDB is not installed.
        StorageError: files are missing, or cannot be read.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise extra_missing("query", "a query", "duckdb") from error
    with tempfile.TemporaryDirectory(prefix="snapkafka-") as spill:
        settings: dict[str, str | bool | int] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": spill,
        }
        if bounds is not None:
            settings |= {
                "memory_limit": f"{bounds.memory_mb}MB",
                "max_temp_directory_size": f"{bounds.memory_mb}MB",
                "threads": bounds.threads,
            }
        with duckdb.connect(config=settings) as database:
            for filesystem in {s.store.scheme: s.store.filesystem for s in snapshots.values()}.values():
                if filesystem is not None:
                    database.register_filesystem(filesystem)
            for schema, snapshot in snapshots.items():
                _make_views(database, schema, snapshot)
            paths = [
                _text(place)
                for snapshot in snapshots.values()
                for table in snapshot.tables
                for file in table.files
                for place in _places(snapshot.store, file.path)
            ]
            database.execute("SET TimeZone = 'UTC'")
            database.execute(f"SET allowed_paths = [{', '.join(paths)}]")
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
            yield database


def _places(store: Store, path: str) -> set[str]:
    """The names under which DuckDB may come for a file: the file system that it asks has one of its own."""
    place, files = store.place(path), store.filesystem
    return {place} if files is None else {place, files.unstrip_protocol(files._strip_protocol(place))}


def _make_views(database: DuckDBPyConnection, schema: str, snapshot: Placed) -> None:
    import duckdb

    store, manifest = snapshot.store, snapshot.manifest
    for table in snapshot.tables:
        there = store.sizes(table)
        gone = next((file.path for file in table.files if file.path not in there), None)
        if gone is not None:
            raise StorageError(f"snapshot {manifest.id} lacks a file: {store.place(gone)} is not there")
    if schema != "main":
        try:
            database.execute(f"CREATE SCHEMA {_name(schema)}")
        except duckdb.Error as error:  # DuckDB's own, or the same but for its case
            raise _refused(error) from error
    for table in manifest.tables:
        files = ", ".join(_text(store.place(file.path)) for file in table.files)
        try:
            database.execute(
                f"CREATE VIEW {_name(schema)}.{_name(table.name)} AS"
                f" SELECT * FROM read_parquet([{files}], hive_partitioning = false)"
            )
        except duckdb.Error as error:
            raise StorageError(
                f"table {table.name} of snapshot {manifest.id} cannot be read: {one_line(error)}"
            ) from error
    if parents := snapshot.parents:
        whole = state_sql(store, (*parents, manifest))
        database.execute(f"CREATE VIEW {_name(schema)}.{STATE} AS {whole}")


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refused(error: Exception) -> BadInputError:
    return BadInputError(
        f"the query failed: {one_line(error)}", hint="SHOW TABLES and DESCRIBE state list what exists"
    )


def one_line(error: Exception) -> str:
    """Return what DuckDB reports, without the piece of SQL that it draws below."""
    return " ".join(re.split(r"\n\s*LINE \d+:", str(error))[0].split())


async def in_thread(database: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Do it where Ctrl-C does not wait for it: who gives up ends the query."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # one that comes before the query has started is not heard
            database.interrupt()
            await asyncio.wait([task], timeout=INTERRUPT_EVERY_S)
        if not task.cancelled():
            task.exception()  # that it was interrupted: asked for, so that nobody is told of it
        raise
