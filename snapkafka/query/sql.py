"""A user's SQL: one SELECT, the snapshots that it names, and its rows in values that JSON has."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapkafka.assembly.invariants import MAIN
from snapkafka.errors import BadInputError, StorageError
from snapkafka.manifest import Manifest
from snapkafka.store import Store
from snapkafka.store.database import one_line

from .engine import OF_ALL, OVER_ALL, Placed
from .locate import heads

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What a name of a schema looks like in SQL: it stands before a dot, in quotes or without. No id is longer, and without
#: a bound the search takes as long as the square of the SQL's length.
SCHEMA_NAME: Final = re.compile(r'(?:"((?:[^"]|""){1,200})"|(?<!\w)(\w{1,200}))\s*\.')

#: A query names the views over all snapshots, of which there are no more.
ALL: Final = re.compile(rf"\b(?:{'|'.join(OVER_ALL)})\b", re.IGNORECASE)
SNAPSHOTS_MAX: Final = 500
#: A query has no more names before a dot: aliases, and schemas, each of which is looked up in the storage.
NAMES_MAX: Final = 50


def named_in(sql: str, store: Store, found: Manifest) -> dict[str, Placed]:
    """Return the snapshots of a storage whose ids are schemas in a query, and as `main` its own. Others are not
    opened: there may be thousands. A query over all of them (`OVER_ALL`) opens each."""
    names = {quoted.replace('""', '"') or plain for quoted, plain in SCHEMA_NAME.findall(sql)}
    if len(names) > NAMES_MAX:
        raise BadInputError(
            f"the query has {len(names)} names before a dot, above {NAMES_MAX}",
            hint="use fewer snapshots and aliases in one query",
        )
    named = {name: Placed(store, store.read(name)) for name in sorted(names) if store.has(name)}
    if ALL.search(sql) is not None:
        there = heads(store)
        if len(there) > SNAPSHOTS_MAX:
            raise BadInputError(
                f"{store} has {len(there)} snapshots, above {SNAPSHOTS_MAX} in one query",
                hint='name the ones you need: "monday".state',
            )
        named |= {f"{OF_ALL}{n}": Placed(store, store.read(head.id)) for n, head in enumerate(there)}
    return {MAIN: Placed(store, found), **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Columns and rows of one SELECT."""

    columns: tuple[str, ...]
    rows: list[list[Any]]

    def mappings(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def select(database: DuckDBPyConnection, sql: str, rows_max: int | None) -> Answer:
    """Run a SELECT; return one row more than `rows_max`, if there is one."""
    import duckdb

    try:
        statements = database.extract_statements(sql)
        if not statements:
            raise BadInputError("the query has no SQL", hint="write one SELECT")
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise BadInputError(
                "only one SELECT is allowed", hint="queries change nothing; run one statement at a time"
            )
        done = database.execute(statements[0])
        columns = _unique(column[0] for column in done.description)
        rows = done.fetchall() if rows_max is None else done.fetchmany(rows_max + 1)
    except duckdb.IOException as error:
        raise StorageError(f"the tables cannot be read: {one_line(error)}") from error
    except duckdb.Error as error:
        raise BadInputError(
            f"the query failed: {one_line(error)}",
            hint='keys and values are text; the columns "offset" and "left" need double quotes;'
            " SHOW TABLES and DESCRIBE state list what exists",
        ) from error
    return Answer(columns=columns, rows=[[_plain(value) for value in row] for row in rows])


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    """Make the names of columns unique: a join may give the same name to several, `key`, `key_1`."""
    found: list[str] = []
    for name in names:
        more = (f"{name}_{number}" for number in itertools.count(1))
        found.append(next(unique for unique in itertools.chain([name], more) if unique not in found))
    return tuple(found)


def _plain(value: Any) -> Any:
    """Convert a value of DuckDB to JSON's types."""
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
