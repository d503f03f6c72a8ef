"""`verify --tables`: the stored tables, compared with those computed from the log, row by row in DuckDB.

Decoded keys and values depend on options (codecs, schemas) that no manifest holds, so the bytes are compared as well:
other bytes contradict the log, other texts of the same bytes leave it open. A log that no longer shows all of a table
(V3, V4) contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from snapkafka.checks import WITNESSES_MAX, Status
from snapkafka.errors import StorageError
from snapkafka.manifest import OPEN_ENDED, STATE, STATE_DELTA, CheckEntry, WitnessEntry
from snapkafka.store import sql_name
from snapkafka.store.database import one_line

from .invariants import PLACE, Tables, first_rows, opened, witness_of_row
from .schemas import columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: As it is called among the other checks.
CHECK: Final = "tables"
#: Columns that depend on how keys and values are decoded.
DECODED: Final = frozenset({"key", "value", "why_undecoded", "window_start", "window_end"})
#: Which check proves that the log still holds all of a table.
PROVEN_BY: Final[Mapping[str, str]] = {STATE: "V3", "messages": "V4", "channels": "V4"}
#: Where the record of a row of the state lies.
STATE_PLACE: Final = ("changelog_topic", "partition", "changelog_offset")
#: So much of a row is shown.
ROW_CHARS: Final = 300

#: Rows that one of two tables lacks, each as JSON and by column.
_Rows: TypeAlias = list[tuple[str, Mapping[str, Any]]]


def compare(stored: Tables, computed: Tables, outcomes: Collection[CheckEntry]) -> CheckEntry:
    """Compare the stored tables of a snapshot with those that its log gives.

    Args:
        outcomes: of the checks of the log.

    Raises:
        StorageError: a stored table cannot be read, or has other columns.
    """
    import duckdb

    passed = {found.name for found in outcomes if found.status is Status.PASSED}
    found, statuses, witnesses = 0, {Status.PASSED}, list[WitnessEntry]()
    with opened({"stored": stored, "computed": computed}) as database:
        for name in sorted(stored.queries.keys() - {*OPEN_ENDED, STATE_DELTA}):
            try:
                more, fewer = _both(database, name, ())
                same_bytes = not any(total for total, _ in _both(database, name, DECODED))
            except duckdb.Error as error:
                raise StorageError(f"stored table {name} cannot be read: {one_line(error)}") from error
            if number := more[0] + fewer[0]:
                open_question = same_bytes or PROVEN_BY.get(name, "V3") not in passed
                statuses.add(Status.UNVERIFIABLE if open_question else Status.FAILED)
                found += number
                witnesses += _witnesses(name, "has a row that the log does not give", same_bytes, more[1])
                witnesses += _witnesses(name, "lacks a row that the log gives", same_bytes, fewer[1])
    status = next(s for s in (Status.FAILED, Status.UNVERIFIABLE, Status.PASSED) if s in statuses)
    return CheckEntry(name=CHECK, status=status, found=found, witnesses=tuple(witnesses[:WITNESSES_MAX]))


def _both(database: DuckDBPyConnection, name: str, leave: Collection[str]) -> list[tuple[int, _Rows]]:
    """Return the rows that only the stored table has, and those that only the other one has.

    Args:
        leave: columns that do not count.
    """
    kept = ", ".join(
        f"list_sort(map_entries({sql_name(column)}))" if kind.startswith("map") else sql_name(column)
        for column, kind in columns(name).items()
        if column not in leave
    )
    one, other = (f"SELECT {kept} FROM {side}.{sql_name(name)}" for side in ("stored", "computed"))
    return [
        first_rows(database.execute(f"{first} EXCEPT ALL {second}"))
        for first, second in ((one, other), (other, one))
    ]


def _witnesses(name: str, what: str, same_bytes: bool, rows: _Rows) -> list[WitnessEntry]:
    why = "" if not same_bytes else (
        "; its bytes are the same: either it was altered, or it was assembled with other codecs, schemas or registry, "
        "or another choice about pickles"
    )  # fmt: skip
    place = STATE_PLACE if name == STATE else PLACE
    return [
        witness_of_row(f"stored table {name} {what}{why}: {text[:ROW_CHARS]}", row, place)
        for text, row in rows
    ]
