"""`diff`: the changes of state, channels and positions from one assembled snapshot to another.

DuckDB compares the tables, and uses the disk if they do not fit into memory; positions come from the manifests. Two
keys are the same if their bytes are equal, in the same partition of the same table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from snapkafka.errors import BadInputError, StorageError
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.query.engine import Placed, engine, in_thread, one_line
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_check import Trust, trusted
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of the two snapshots."""

    id: str
    epoch: int
    namespace: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The numbers of added, changed, removed and unchanged keys of a table."""

    app: str
    table: str
    added: int
    changed: int
    removed: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A changed key; `change` is "added", "changed" or "removed". `key` is None if it is not text; `window_start`,
    `window_end`: its window, in seconds since 1970; `key_raw` are its bytes as hex digits."""

    app: str
    table: str
    change: str
    partition: int
    key: str | None
    window_start: float | None
    window_end: float | None
    key_raw: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelChange:
    """The messages in flight from an app to an app in a topic, before and after."""

    sender_app: str
    receiver_app: str
    topic: str
    messages_before: int
    messages_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The progress of an app in an input: positions before and after, None if a snapshot has none; `processed` is the
    number of offsets between them, None if there are none, or if the topic was recreated."""

    app: str
    topic: str
    partition: int
    before: int | None
    after: int | None
    processed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The changes from one snapshot to another. `keys`: the first of each change of each table, as many as were asked
    for. `trust`: the integrity checks before the tables were read."""

    before: Compared
    after: Compared
    tables: tuple[TableChange, ...]
    keys: tuple[KeyChange, ...]
    channels: tuple[ChannelChange, ...]
    progress: tuple[Progressed, ...]
    trust: Trust


async def diff(
    where: Connection | Cluster | None,
    namespace: str,
    before: str,
    after: str,
    *,
    storage: str = "",
    keys: int = 0,
    unchecked: bool = False,
) -> Difference:
    """Compare two snapshots.

    Args:
        where: not needed with `storage`.
        before, after: ids, epochs or `latest`, the last good one.
        keys: the number of keys to name, of each change of each table.
        unchecked: do not compare the files with the manifests.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        StorageError: files are missing, unreadable or altered.
        DependencyMissingError: DuckDB is not installed.
    """
    if keys < 0:
        raise BadInputError(f"--keys must be 0 or more, got {keys}", hint="--keys 0 lists none")
    require_extra("query", "a comparison")
    places = await manifest_places(where, namespace, [before, after], storage=storage, good=True)
    older, newer = (Placed(*read_manifest(place)) for place in places)
    old, new = older.manifest, newer.manifest
    sides = {"before": older, "after": newer}
    trust = await trusted(where, sides.values(), unchecked=unchecked)
    with engine(sides) as database:
        tables, named, channels = await in_thread(database, lambda: compare_views(database, keys))
    return Difference(
        before=compared(old),
        after=compared(new),
        tables=tables,
        keys=named,
        channels=channels,
        progress=_progress(old, new),
        trust=trust,
    )


def compared(manifest: Manifest) -> Compared:
    return Compared(
        id=manifest.id, epoch=manifest.epoch, namespace=manifest.namespace, verdict=manifest.verdict
    )


# -- what DuckDB compares -------------------------------------------------------------------------------------

#: Per table and change the number of keys, and the first few of them; $1: how few. Values are told apart by their MD5:
#: what has to be remembered of a key does not depend on how large they are. A key may have several rows (operations on
#: a set that could not be read): it is as before if they are the same ones.
TABLES: Final = """
SELECT app, "table", change, count(*) AS found,
       arg_min({'partition': partition, 'key': key, 'window_start': window_start, 'window_end': window_end,
                'key_raw': lower(hex(key_raw))},
               {'partition': partition, 'key_raw': key_raw}, $1) FILTER (WHERE change <> 'unchanged') AS first
FROM (
    SELECT app, "table", partition, key_raw, any_value(key) AS key,
           any_value(window_start) AS window_start, any_value(window_end) AS window_end,
           CASE WHEN bool_and(later) THEN 'added' WHEN NOT bool_or(later) THEN 'removed'
                WHEN bit_xor(md5_number(value_raw)) = 0 THEN 'unchanged' ELSE 'changed' END AS change
    FROM (
        SELECT false AS later, * FROM before.state
        UNION ALL BY NAME SELECT true AS later, * FROM after.state
    )
    GROUP BY app, "table", partition, key_raw
)
GROUP BY ALL
ORDER BY app, "table", change
"""
#: In the order of `ChannelChange`.
CHANNELS: Final = """
SELECT sender_app, receiver_app, topic,
       sum(CASE WHEN later THEN 0 ELSE messages END), sum(CASE WHEN later THEN messages ELSE 0 END),
       sum(CASE WHEN later THEN 0 ELSE bytes END), sum(CASE WHEN later THEN bytes ELSE 0 END)
FROM (
    SELECT false AS later, * FROM before.channels
    UNION ALL BY NAME SELECT true AS later, * FROM after.channels
)
GROUP BY ALL
ORDER BY receiver_app, topic, sender_app
"""


def compare_views(
    database: DuckDBPyConnection, keys: int
) -> tuple[tuple[TableChange, ...], tuple[KeyChange, ...], tuple[ChannelChange, ...]]:
    import duckdb

    try:
        return *_tables(database, keys), _channels(database)
    except duckdb.Error as error:
        raise StorageError(f"the tables cannot be compared: {one_line(error)}") from error


def _tables(database: DuckDBPyConnection, keys: int) -> tuple[tuple[TableChange, ...], tuple[KeyChange, ...]]:
    rows = database.execute(TABLES, [max(keys, 1)]).fetchall()
    counts: dict[tuple[str, str], Counter[str]] = {}
    for app, table, change, found, _ in rows:
        counts.setdefault((app, table), Counter())[change] = found
    tables = tuple(
        TableChange(
            app=app,
            table=table,
            added=found["added"],
            changed=found["changed"],
            removed=found["removed"],
            unchanged=found["unchanged"],
        )
        for (app, table), found in counts.items()
    )
    named = tuple(
        KeyChange(app=app, table=table, change=change, **key)
        for app, table, change, _, first in rows
        for key in (first or ())[:keys]
    )
    return tables, named


def _channels(database: DuckDBPyConnection) -> tuple[ChannelChange, ...]:
    names = [item.name for item in fields(ChannelChange)]
    rows = database.execute(CHANNELS).fetchall()
    return tuple(ChannelChange(**dict(zip(names, row, strict=True))) for row in rows)


# -- what the manifests say -----------------------------------------------------------------------------------


def _progress(before: Manifest, after: Manifest) -> tuple[Progressed, ...]:
    old, new = _inputs(before), _inputs(after)
    return tuple(
        _progressed(*place, old.get(place), new.get(place)) for place in sorted(old.keys() | new.keys())
    )


def _inputs(manifest: Manifest) -> dict[tuple[str, str, int], InputCut]:
    return {(cut.app, cut.topic, cut.partition): cut for cut in manifest.captured.inputs}


def _progressed(
    app: str, topic: str, partition: int, before: InputCut | None, after: InputCut | None
) -> Progressed:
    processed = None
    if before and after and before.topic_id == after.topic_id:
        processed = after.position - before.position
    return Progressed(
        app=app,
        topic=topic,
        partition=partition,
        before=before.position if before else None,
        after=after.position if after else None,
        processed=processed,
    )
