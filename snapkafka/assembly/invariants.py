"""V6: invariants in SQL, by DuckDB, over the Parquet files of a snapshot (see `snapkafka.assembly.invariant_files`).

An invariant that cannot be evaluated (a value that does not cast, an unknown column, more time than there is, a cast of
`unwritten_casts`) proves nothing, and concerns no other.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from snapkafka.checks import WITNESSES_MAX, Status
from snapkafka.errors import BadInputError, StorageError
from snapkafka.manifest import (
    STATE,
    STATE_DELTA,
    CheckEntry,
    InvariantEntry,
    Manifest,
    TableEntry,
    WitnessEntry,
    state_table,
)
from snapkafka.store import Store, chained_sql, places_of, sql_name, sql_of_files, state_parents
from snapkafka.store.database import database, locked, one_line

from .schemas import IN_FLIGHT, SCHEMAS, in_flight_sql, schema
from .unwritten_casts import long_number_sql, problem_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: An invariant has so many seconds.
SECONDS_MAX: Final = 600.0
#: Rows that are taken from DuckDB at a time.
ROWS: Final = 10_000
#: The schema of the snapshot whose tables need no schema.
MAIN: Final = "main"
#: The columns that say where the record of a row lies.
PLACE: Final = ("topic", "partition", "offset")
_JSON: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


class Tables(NamedTuple):
    """The tables of a snapshot for SQL: a query for each, the files that these read, and the file system that opens
    them."""

    queries: Mapping[str, str]
    files: Sequence[str]
    filesystem: Any = None


def tables_at(store: Store, own: Iterable[TableEntry], parents: Sequence[Manifest] = ()) -> Tables:
    """Return the tables of a snapshot, of an incremental one with the whole state as well.

    Args:
        own: its own tables.
        parents: the base of an incremental snapshot, oldest first.
    """
    found = {table.name: places_of(store, table) for table in own}
    queries = {name: f"SELECT * FROM {sql_of_files(files)}" for name, files in found.items()}
    below = [places_of(store, state_table(parent)) for parent in parents]
    if parents:
        queries[STATE] = chained_sql([*below, found[STATE_DELTA]])
    files = [file for of_table in (*found.values(), *below) for file in of_table]
    return Tables(queries, files, store.filesystem)


def published(store: Store, manifest: Manifest) -> Tables:
    """Return the tables of an assembled snapshot."""
    return tables_at(store, manifest.tables, state_parents(store, manifest))


def require_valid(asked: Iterable[InvariantEntry]) -> None:
    """Refuse predicates that cannot be evaluated whatever the tables hold.

    Raises:
        BadInputError: names the predicate, and what to write.
    """
    for invariant in asked:
        with _empty() as tables:
            if problem := _problem(tables, invariant):
                raise BadInputError(
                    f"invariant {invariant.name}: {problem}", hint="see docs/explanation/verification.md (V6)"
                )


def check(invariants: Iterable[InvariantEntry], tables: Tables) -> list[CheckEntry]:
    """Evaluate each invariant."""
    invariants = list(invariants)
    if not invariants:
        return []  # DuckDB takes longer to start than a small snapshot
    with _empty() as empty, opened({MAIN: tables}) as there:
        return [_outcome(empty, there, invariant) for invariant in invariants]


@contextmanager
def opened(
    snapshots: Mapping[str, Tables],
    settings: Mapping[str, str | bool | int] | None = None,
) -> Iterator[DuckDBPyConnection]:
    """Provide DuckDB with the tables of snapshots as views, each in its schema, and with nothing else.

    Args:
        settings: more of DuckDB's own.

    Raises:
        StorageError: a file is missing, or cannot be read.
        BadInputError: DuckDB does not take the name of a schema.
    """
    filesystems = {getattr(it.filesystem, "protocol", ""): it.filesystem for it in snapshots.values()}
    with database(filesystems.values(), settings) as found:
        import duckdb

        for schema, tables in snapshots.items():
            try:
                if schema != MAIN:
                    found.execute(f"CREATE SCHEMA {sql_name(schema)}")
            except duckdb.Error as error:  # DuckDB's own, or the same but for its case
                raise BadInputError(f"no schema has the name {schema}: {one_line(error)}") from error
            for table, query in tables.queries.items():
                try:
                    found.execute(f"CREATE VIEW {sql_name(schema)}.{sql_name(table)} AS {query}")
                except duckdb.Error as error:
                    raise StorageError(
                        f"table {table} cannot be read: {one_line(error)}",
                        hint="another release may have assembled it: assemble it again",
                    ) from error
            if "messages" in tables.queries:
                there = f"{sql_name(schema)}.{sql_name(IN_FLIGHT)}"
                found.execute(f"CREATE VIEW {there} AS {in_flight_sql(f'{sql_name(schema)}.messages')}")
        locked(found, ((file, each.filesystem) for each in snapshots.values() for file in each.files))
        yield found


@contextmanager
def _empty() -> Iterator[DuckDBPyConnection]:
    """Provide DuckDB with every table, empty."""
    from .arrow_schema import arrow_schema  # who asks a verb needs no Arrow

    with database([]) as found:
        for name in SCHEMAS:
            found.register("columns", arrow_schema(schema(name)).empty_table())
            found.execute(f"CREATE TABLE {sql_name(name)} AS FROM columns")
        found.execute(f"CREATE VIEW {IN_FLIGHT} AS {in_flight_sql('messages')}")
        locked(found, [])
        yield found


def _problem(empty: DuckDBPyConnection, invariant: InvariantEntry) -> str:
    """Return why an invariant cannot be evaluated whatever the tables hold; empty: it can be."""
    import duckdb

    try:
        statements = empty.extract_statements(invariant.sql)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            return "it has to be one SELECT"
        return problem_of(empty, statements[0].query)
    except duckdb.Error as error:
        return one_line(error)


def _outcome(empty: DuckDBPyConnection, there: DuckDBPyConnection, invariant: InvariantEntry) -> CheckEntry:
    import duckdb

    name = f"V6 {invariant.name}"
    if problem := _problem(empty, invariant):
        return _not_evaluated(name, problem)
    watch = threading.Timer(SECONDS_MAX, there.interrupt)
    watch.start()
    try:
        long_number = long_number_sql(empty, invariant.sql)
        if long_number and (long := there.execute(long_number).fetchone()):
            return _not_evaluated(
                name, f"JSON has the number {long[0]}, of which DuckDB keeps 15 digits: write it as a text"
            )
        found, first = first_rows(there.execute(invariant.sql))
    except duckdb.InterruptException:
        return _not_evaluated(name, f"it takes more than {SECONDS_MAX:g} s")
    except duckdb.Error as error:
        return _not_evaluated(name, one_line(error))
    finally:
        watch.cancel()
    return CheckEntry(
        name=name,
        status=Status.FAILED if found else Status.PASSED,
        found=found,
        witnesses=tuple(witness_of_row(text, row) for text, row in first),
    )


def _not_evaluated(name: str, why: str) -> CheckEntry:
    witness = WitnessEntry(topic="", partition=-1, offset=-1, what=f"not evaluated: {why}")
    return CheckEntry(name=name, status=Status.UNVERIFIABLE, found=1, witnesses=(witness,))


def first_rows(done: DuckDBPyConnection) -> tuple[int, list[tuple[str, Mapping[str, Any]]]]:
    """Return how many rows there are, and the first of them as JSON, in that order."""
    columns, found = [column[0] for column in done.description or ()], 0
    first: list[tuple[str, Mapping[str, Any]]] = []
    while rows := done.fetchmany(ROWS):
        found += len(rows)
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        both = [*first, *((_as_json(row), row) for row in named)]
        first = heapq.nsmallest(WITNESSES_MAX, both, key=lambda pair: pair[0].encode())
    return found, first


def _as_json(row: Mapping[str, Any]) -> str:
    """Return a row as JSON, without nulls, exact numbers with all their digits."""
    return _JSON.encode({column: value for column, value in row.items() if value is not None}).decode()


def witness_of_row(what: str, row: Mapping[str, Any], columns: Iterable[str] = PLACE) -> WitnessEntry:
    """Return the witness of a row; it has a place if these columns are one."""
    topic, partition, offset = (row.get(column) for column in columns)
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)):
        topic, partition, offset = "", -1, -1
    return WitnessEntry(topic=topic, partition=partition, offset=offset, what=what)
