"""The state of an incremental snapshot, and the integrity of a stored one: its manifest compared with its files, and
with its own checksum.

A snapshot that builds on another one has only the keys that have changed since: those with a new value, and those that
were deleted. So if several snapshots of the chain have a key, the latest one counts.

Only the files are read: no broker, no ledger, no Spark. So this finds damage done after the assembly (a flipped bit, a
lost or foreign file, an edited number, a value under a renewed SHA-256). Who renews the checksum as well is found by
the ledger's verdict, which has the SHA-256 of the manifest, and by `verify --tables`. Only the log can prove that the
snapshot was consistent when it was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from snapkafka.errors import SnapkafkaError, StorageError
from snapkafka.manifest import Manifest, TableEntry, checksum_of, state_table

from .database import sql_name, sql_of_files
from .store import Damage, Store

#: The columns that identify a key of a table; `key_raw` may be null.
KEY: Final = ("app", "table_name", "changelog_topic", "partition", "key_raw")


def state_parents(store: Store, manifest: Manifest) -> tuple[Manifest, ...]:
    """List the snapshots on which one builds: a full one, then those that build on it, oldest first. Their tables
    (`manifest.state_table`) and its own make up its state. A full snapshot has none.

    Each is checked to be the one that was built on, and its files to exist in their sizes.

    Raises:
        StorageError: one of them, or a file of its state, is missing or is not what it was.
    """
    parents = []
    for parent in manifest.parents:
        lost, hint = f"snapshot {manifest.id} builds on {parent.id}, which", _again(parent.id, manifest.id)
        try:
            part = store.read(parent.id)
            table = state_table(part)
        except SnapkafkaError as error:
            raise StorageError(f"{lost} cannot be used: {error.message}", hint=hint) from error
        found, built_on = (part.namespace, part.epoch), (manifest.namespace, parent.epoch)
        if found != built_on or table.digest != parent.digest:
            raise StorageError(f"{lost} has changed: its rows differ", hint=hint)
        require_state(store, part)
        parents.append(part)
    return tuple(parents)


def require_state(store: Store, part: Manifest, *, hashed: bool = False) -> None:
    """Refuse state whose files do not exist in their sizes; `hashed`: whose files are not, byte for byte, those that
    were written.

    Raises:
        StorageError: names the snapshot and the first such file.
    """
    try:
        store.require_files(state_table(part).files, hashed=hashed)
    except StorageError as error:
        raise StorageError(f"snapshot {part.id}: {error.message}", hint=_again(part.id)) from error


def _again(*names: str) -> str:
    return (
        f"`snapkafka assemble {' '.join(names)}` makes them again"
        " while the log holds them; else take a full snapshot"
    )


def chained_sql(parts: Sequence[Iterable[str]]) -> str:
    """Return a query of DuckDB for the state of a snapshot, with the columns of the table `state`.

    Args:
        parts: the places of the files of its parents, oldest first, and of its own.
    """
    full, *deltas = map(sql_of_files, parts)
    if not deltas:
        return f"SELECT * FROM {full}"
    changes = " UNION ALL BY NAME ".join(f"SELECT *, {n} AS nth FROM {rows}" for n, rows in enumerate(deltas))
    key = ", ".join(map(sql_name, KEY))
    same = " AND ".join(f"f.{sql_name(column)} IS NOT DISTINCT FROM c.{sql_name(column)}" for column in KEY)
    return (
        f"WITH changed AS (SELECT * FROM ({changes}) "
        f"QUALIFY nth = max(nth) OVER (PARTITION BY {key})) "
        f"SELECT * FROM {full} f WHERE NOT EXISTS (SELECT 1 FROM changed c WHERE {same}) "
        "UNION ALL BY NAME SELECT * EXCLUDE (deleted, nth) FROM changed WHERE NOT deleted"
    )


def places_of(store: Store, table: TableEntry) -> list[str]:
    """Return the places of the files of a table."""
    return [store.place(file.path) for file in table.files]


def file_damage(store: Store, manifest: Manifest) -> Iterator[Damage]:
    """Find what is wrong with the files of a snapshot: missing, changed and foreign ones, also in the state that it
    builds on.

    Args:
        store: to which the paths of the manifest are relative.
    """
    own = [file for table in manifest.tables for file in table.files]
    yield from store.damage(own)
    try:
        for table in map(state_table, state_parents(store, manifest)):
            yield from store.damage(table.files)
    except SnapkafkaError as error:
        yield Damage(file=manifest.parents[-1].path, what=error.message)
    named = {str(PurePosixPath(file.path)) for file in own}
    for path in store.files_of(manifest):
        if path not in named:
            yield Damage(file=path, what="the manifest does not name it")


def altered(manifest: Manifest) -> str:
    """Return how a manifest differs from what was written; empty: it does not."""
    found = checksum_of(manifest)
    if manifest.checksum == found:
        return ""
    return f"has changed since it was written: its checksum is {found}, was {manifest.checksum or 'missing'}"
