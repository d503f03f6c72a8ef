"""Users' expressions over records, evaluated by DuckDB, which sees a batch of records and nothing else of this
machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import extra_missing
from snapkafka.wire import headers as wire

from .suppression import text_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The columns that an expression may use. `app`, `table_name`: empty for an input.
COLUMNS: Final = {
    "app": "VARCHAR",
    "table_name": "VARCHAR",
    "topic": "VARCHAR",
    "partition": "BIGINT",
    "key": "VARCHAR",
    "value": "VARCHAR",
    "headers": "VARCHAR",
    "key_raw": "BLOB",
    "value_raw": "BLOB",
}
SQL_HINT: Final = f"it is an expression over the columns {', '.join(COLUMNS)}"


class Subject(NamedTuple):
    """A row of the batch, in the order of `COLUMNS`."""

    app: str
    table_name: str
    topic: str
    partition: int
    key: str | None
    value: str | None
    headers: str
    key_raw: bytes | None
    value_raw: bytes | None


class Expressions:
    """An evaluator of expressions over batches.

    Raises:
        DependencyMissingError: DuckDB is not installed.
    """

    def __init__(self) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise extra_missing("query", "masks and suppression by SQL", "duckdb") from error
        self._database: DuckDBPyConnection = duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            }
        )
        self._count = 0
        columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self._database.execute(f"CREATE TABLE records (n BIGINT, {columns})")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def fill(self, subjects: Sequence[Subject]) -> None:
        """Replace the batch."""
        self._count = len(subjects)
        self._database.execute("DELETE FROM records")
        if subjects:
            lists: list[list[Any]] = [list(range(len(subjects))), *map(list, zip(*subjects, strict=True))]
            marks = ", ".join("unnest(?)" for _ in lists)
            self._execute(f"INSERT INTO records SELECT {marks}", "a record", lists)

    def hold(self, sql: str) -> list[bool | None]:
        """Return for each subject whether an expression holds; None: it is NULL.

        Raises:
            BadInputError: it fails.
        """
        return [holds for (holds,) in self._ask(f"CAST(({sql}\n) AS BOOLEAN)", sql)]

    def texts(self, sql: str, what: str) -> list[str | None]:
        """Return the value of an expression for each subject as text; None: it is NULL.

        Raises:
            BadInputError: it fails.
        """
        return [text for (text,) in self._ask(f"CAST(({sql}\n) AS VARCHAR)", what)]

    def json(self, sql: str, what: str) -> list[str]:
        """Return the value of an expression for each subject as JSON.

        Raises:
            BadInputError: it fails.
        """
        found = self._ask(f"CAST(json_array(({sql}\n)) AS VARCHAR)", what)
        return [text[1:-1] for (text,) in found]

    def _ask(self, asked: str, what: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._execute(
            f"SELECT {asked} FROM records ORDER BY n", what
        ).fetchall()
        if len(found) != self._count:
            raise BadInputError(
                f"the SQL of {what} gives {len(found):,} values for {self._count:,} records", hint=SQL_HINT
            )
        return found

    def _execute(self, sql: str, what: str, lists: list[list[Any]] | None = None) -> DuckDBPyConnection:
        import duckdb

        try:
            return self._database.execute(sql, lists)
        except duckdb.Error as error:
            raise BadInputError(
                f"the SQL of {what} fails: {' '.join(str(error).split())}", hint=SQL_HINT
            ) from error


def header_texts(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Format the headers of a record, without ours, as JSON; values that are not text as hex digits."""
    found = []
    for name, value in wire.without_header(tuple(headers)):
        text = text_of(value)
        if value is not None and text is None:
            found.append({"key": name, "hex": value.hex()})
        else:
            found.append({"key": name, "value": text})
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)
