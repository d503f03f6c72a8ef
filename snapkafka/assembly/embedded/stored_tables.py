"""The stored tables of a snapshot beside those that its log gives, in memory (`assembly.stored_tables`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly.arrow_tables import columns_of, schema_of
from snapkafka.assembly.stored_tables import DECODED, PLACE, Compared, OnlyThere, outcome_of
from snapkafka.checks import WITNESSES_MAX, CheckOutcome
from snapkafka.errors import StorageError
from snapkafka.manifest import OPEN_ENDED, STATE, STATE_DELTA, Manifest, TableEntry, state_table
from snapkafka.store import Store, state_parents
from snapkafka.store.row_digests import row_digest
from snapkafka.store.state_chain import KEY

from .handover import HandOverError
from .json_text import row_text
from .write import digest, rows_of

#: Rows that are read from a storage at most.
ROWS_MAX: Final = 300_000


def compare(
    stored: Mapping[str, pa.Table], computed: Mapping[str, pa.Table], outcomes: Collection[CheckOutcome]
) -> CheckOutcome:
    """Compare the stored tables of a snapshot with those that its log gives.

    Args:
        stored: of an incremental snapshot with the whole `state`.
        computed: the same tables, from the log.
        outcomes: of the checks of the log.
    """
    compared = [
        Compared(
            name,
            digest(name, table) == digest(name, computed[name]),
            digest(name, table, leave=DECODED) == digest(name, computed[name], leave=DECODED),
            partial(_differences, name, table, computed[name]),
        )
        for name, table in stored.items()
    ]
    return outcome_of(compared, outcomes)


def _differences(name: str, stored: pa.Table, computed: pa.Table) -> tuple[OnlyThere, OnlyThere]:
    one, other = _hashed(name, stored), _hashed(name, computed)
    return _only(name, one, other), _only(name, other, one)


def _only(
    name: str, one: Mapping[str, tuple[int, dict[str, Any]]], other: Mapping[str, tuple[int, Any]]
) -> OnlyThere:
    rows = [row for key, (times, row) in one.items() if key not in other or other[key][0] != times]
    found = sorted(((row_text(row), row) for row in rows), key=lambda item: item[0].encode())
    first = []
    for text, row in found[:WITNESSES_MAX]:
        topic, partition, offset = (row[column] for column in PLACE[name]) if name in PLACE else (None,) * 3
        first.append((text, (topic, partition, offset)))
    return OnlyThere(len(found), first)


def _hashed(name: str, table: pa.Table) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return rows by a hash of each, with the number of equal rows."""
    kinds = [kind for _, kind in columns_of(name)]
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    for row in rows_of(name, table):
        _, key = row_digest(kinds, iter([tuple(row.values())]))
        times = found[key][0] if key in found else 0
        found[key] = (times + 1, row)
    return found


# --- Reading --------------------------------------------------------------------------------------------------------


def stored_tables(store: Store, manifest: Manifest) -> dict[str, pa.Table]:
    """Read the tables of a snapshot from its storage, of an incremental one with the whole state.

    Raises:
        HandOverError: they have more rows than memory is meant for.
        StorageError: a file cannot be read.
    """
    wanted = [table for table in manifest.tables if table.name not in OPEN_ENDED]
    _require_small(wanted)
    found = {table.name: _read(store, manifest, table) for table in wanted}
    if STATE_DELTA in found:
        own = found.pop(STATE_DELTA)
        found[STATE] = whole_state(store, state_parents(store, manifest), own)
    return found


def whole_state(store: Store, parts: Iterable[Manifest], own: pa.Table) -> pa.Table:
    """Return the state of a snapshot whose own delta is `own`, on top of that of `parts`, which are in `store`."""
    parts = list(parts)
    _require_small(map(state_table, parts))
    full, *deltas = (_read(store, part, state_table(part)).to_pylist() for part in parts)
    rows = _by_key(full)
    for delta in (*deltas, own.to_pylist()):
        rows |= _by_key(delta)
    kept = [row for of_key in rows.values() for row in of_key if not row.pop("deleted", False)]
    return pa.Table.from_pylist(kept, schema=schema_of(STATE))


def _by_key(rows: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Return rows by their keys: unreadable operations of a set may share one."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in KEY), []).append(row)
    return found


def _require_small(tables: Iterable[TableEntry]) -> None:
    if (rows := sum(table.rows for table in tables)) > ROWS_MAX:
        raise HandOverError(f"stored tables of {rows:,} rows (at most {ROWS_MAX:,})")


def files_in(store: Store, manifest: Manifest, table: TableEntry) -> list[str]:
    """List the files in the folder of a table, as Spark does: named by the manifest or not, without hidden ones."""
    places = ((path, *path.rpartition("/")[::2]) for path in store.files_of(manifest))
    return [path for path, folder, name in places if folder == table.path and not name.startswith(("_", "."))]


def _read(store: Store, manifest: Manifest, table: TableEntry) -> pa.Table:
    """Read a table from its folder, in the columns that it is to have."""
    wanted, paths = schema_of(table.name), files_in(store, manifest, table)
    return pa.concat_tables([wanted.empty_table(), *(_file(store, path, wanted) for path in paths)])


def _file(store: Store, path: str, wanted: pa.Schema) -> pa.Table:
    try:
        with store.open(path) as opened, pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as file:
            found = file.read()
        if set(wanted.names) - set(found.column_names):
            raise HandOverError("tables with other columns")
        return found.select(wanted.names).cast(wanted)
    except (pa.ArrowException, OSError) as error:
        line = str(error).strip().splitlines()[0][:200]
        raise StorageError(f"file {store.place(path)} cannot be read: {line}") from error
