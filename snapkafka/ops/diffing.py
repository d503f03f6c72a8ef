"""`diff`: the changes of state, channels and positions from one assembled snapshot to another.

DuckDB compares the tables, and uses the disk if they do not fit into memory; positions come from the manifests. Two
keys are the same if their bytes are equal, in the same partition of the same table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import BadInputError, ForkRefusedError
from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.ledger.reading import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, prefix_of, prefixed
from snapkafka.query.engine import Bounds
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_check import Trust
from snapkafka.query.sandbox import Asked, ask
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest, sql_text
from snapkafka.verbs import Result

#: The schemas of the two snapshots.
SIDES: Final = ("before", "after")


class ComparedTables(Result, frozen=True, kw_only=True):
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
    `window_end`: its window, by ISO 8601, in UTC; `key_raw` are its bytes as hex digits. `value_before`,
    `value_after`: as text, if they were asked for and there is one; its bytes as hex digits where it is not text."""

    app: str
    table: str
    change: str
    partition: int
    key: str | None
    window_start: str | None
    window_end: str | None
    key_raw: str | None
    value_before: str | None = None
    value_after: str | None = None


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

    before: ComparedTables
    after: ComparedTables
    tables: tuple[TableChange, ...]
    keys: tuple[KeyChange, ...]
    channels: tuple[ChannelChange, ...]
    progress: tuple[Progressed, ...]
    trust: Trust


async def diff(
    where: Connection | Cluster | None,
    namespace: str,
    before: str = "",
    after: str = LATEST,
    *,
    fork: str = "",
    storage: str = "",
    manifests: Sequence[str] = (),
    keys: int = 0,
    values: bool = False,
    bounds: Bounds | None = None,
) -> Difference:
    """Compare two snapshots.

    Args:
        before, after: ids, epochs or `latest`, the last good one.
        fork: the changes of this fork of the namespace since its snapshot, by names of production; `before` is a
            snapshot of the fork.
        keys: the number of keys to name, of each change of each table.
        values: whether these have their values.
        manifests: the places of the two manifests, instead of names.

    Raises:
        ForkRefusedError: there is no such fork.
    """
    if values and not keys:
        raise BadInputError("needs keys to list", hint="add --keys N", field="values")
    require_extra("query", "a comparison")
    places = manifests or await _sides(where, namespace, before, after, storage, fork)
    old, new = [(await asyncio.to_thread(read_manifest, place))[1] for place in places]
    sqls = _compared_sql(keys, values=values, prefix=prefix_of(fork) if fork else "")
    asked = Asked(places=dict(zip(SIDES, places, strict=True)), sqls=sqls, bounds=bounds)
    done = await ask(asked, where)
    tables, channels, *named = (answer.mappings() for answer in done.answers)
    return Difference(
        before=ComparedTables(id=old.id, epoch=old.epoch, namespace=old.namespace, verdict=old.verdict),
        after=ComparedTables(id=new.id, epoch=new.epoch, namespace=new.namespace, verdict=new.verdict),
        tables=tuple(TableChange(**row) for row in tables),
        keys=tuple(KeyChange(**row) for rows in named for row in rows),
        channels=tuple(ChannelChange(**row) for row in channels),
        progress=() if fork else tuple(_progress(old, new)),
        trust=done.trust,
    )


async def _sides(
    where: Connection | Cluster | None, namespace: str, before: str, after: str, storage: str, fork: str
) -> list[str]:
    """Return the places of the manifests of two snapshots, or of the one that a fork was created from and of one of the
    fork."""
    if not fork:
        if not before:
            raise BadInputError("name two snapshots, or a fork", hint="`snapkafka list` shows them")
        return await manifest_places(where, namespace, [before, after], storage=storage, good=True)
    if where is None:
        raise BadInputError("a fork is found through its ledger", hint="add --bootstrap")
    forked = prefixed(fork, namespace)
    async with administration(where) as admin:
        there = await admin.describe_topics([LEDGER + forked])
    found = None
    if LEDGER + forked in there:
        async with opened(where, forked) as work:
            found = work.reading.state.fork
    if found is None:
        raise ForkRefusedError(f"there is no fork {fork}", hint="`snapkafka fork list` lists those there are")
    (old,) = await manifest_places(where, namespace, [found.snapshot], storage=storage)
    (new,) = await manifest_places(where, forked, [before or LATEST], good=True)
    return [old, new]


# -- what DuckDB compares -------------------------------------------------------------------------------------

#: Every key, and what became of it. Values are compared by their MD5: what is remembered of a key does not depend
#: on how large they are. A key may have several rows (operations on a set that could not be read): it is as before if
#: they are the same ones.
ROWS: Final = """(
    SELECT false AS later, * FROM before.state UNION ALL BY NAME SELECT true AS later, * FROM after.state
)"""
CHANGES: Final = f"""(
    SELECT app, table_name, partition, key_raw, any_value(key) AS key,
           any_value(window_start) AS window_start, any_value(window_end) AS window_end,
           CASE WHEN bool_and(later) THEN 'added' WHEN NOT bool_or(later) THEN 'removed'
                WHEN bit_xor(md5_number(value_raw)) = 0 THEN 'unchanged' ELSE 'changed' END AS change
    FROM {ROWS} GROUP BY app, table_name, partition, key_raw
)"""
#: With the names of `TableChange`.
TABLES: Final = f"""
SELECT app, table_name AS "table", count(*) FILTER (WHERE change = 'added') AS added,
       count(*) FILTER (WHERE change = 'changed') AS changed, count(*) FILTER (WHERE change = 'removed') AS removed,
       count(*) FILTER (WHERE change = 'unchanged') AS unchanged
FROM {CHANGES} GROUP BY ALL ORDER BY ALL
"""
#: The first few keys of each change, $1, with the names of `KeyChange`.
KEYS: Final = f"""
SELECT app, table_name AS "table", change, partition, key, window_start, window_end, lower(hex(key_raw)) AS key_raw
FROM {CHANGES} AS changes WHERE change <> 'unchanged'
QUALIFY row_number() OVER (PARTITION BY app, table_name, change ORDER BY partition, changes.key_raw) <= $1
ORDER BY app, table_name, change, partition, changes.key_raw
"""
#: The same with their values, a line for each row. They are looked up only then: values may be large.
VALUES: Final = f"""
SELECT named.*, string_agg(text, chr(10) ORDER BY text) FILTER (WHERE NOT later) AS value_before,
       string_agg(text, chr(10) ORDER BY text) FILTER (WHERE later) AS value_after
FROM ({KEYS}) AS named JOIN (
    SELECT *, coalesce(value, '0x' || lower(hex(value_raw))) AS text FROM {ROWS}
) AS rows ON rows.app = named.app AND rows.table_name = named."table" AND rows.partition = named.partition
    AND rows.key_raw IS NOT DISTINCT FROM unhex(named.key_raw)
GROUP BY ALL ORDER BY named.app, named."table", named.change, named.partition, named.key_raw
"""
#: With the names of `ChannelChange`.
CHANNELS: Final = """
SELECT sender_app, receiver_app, topic,
       sum(CASE WHEN later THEN 0 ELSE messages END)::BIGINT AS messages_before,
       sum(CASE WHEN later THEN messages ELSE 0 END)::BIGINT AS messages_after,
       sum(CASE WHEN later THEN 0 ELSE bytes END)::BIGINT AS bytes_before,
       sum(CASE WHEN later THEN bytes ELSE 0 END)::BIGINT AS bytes_after
FROM (
    SELECT false AS later, * FROM before.channels
    UNION ALL BY NAME SELECT true AS later, * FROM after.channels
)
GROUP BY ALL
ORDER BY receiver_app, topic, sender_app
"""


#: Columns that hold names, by table.
NAMES: Final = {"state": ("app", "changelog_topic"), "channels": ("sender_app", "receiver_app", "topic")}


def _compared_sql(keys: int, *, values: bool, prefix: str) -> tuple[str, ...]:
    """Return the queries of a comparison: tables, channels, and so many keys of each change if wanted."""
    named = (VALUES if values else KEYS).replace("$1", str(keys))
    found = (TABLES, CHANNELS, *([named] if keys else ()))
    for table, columns in NAMES.items() if prefix else ():
        names = ", ".join(f"replace({name}, {sql_text(prefix)}, '') AS {name}" for name in columns)
        view = f"(SELECT * REPLACE ({names}) FROM after.{table})"
        found = tuple(sql.replace(f"FROM after.{table}", f"FROM {view}") for sql in found)
    return found


# -- what the manifests say -----------------------------------------------------------------------------------


def _progress(before: Manifest, after: Manifest) -> Iterator[Progressed]:
    old, new = (
        {(cut.app, cut.topic, cut.partition): cut for cut in it.captured.inputs} for it in (before, after)
    )
    for app, topic, partition in sorted(old.keys() | new.keys()):
        was, now = old.get((app, topic, partition)), new.get((app, topic, partition))
        yield Progressed(
            app=app,
            topic=topic,
            partition=partition,
            before=was.position if was else None,
            after=now.position if now else None,
            processed=now.position - was.position if was and now and was.topic_id == now.topic_id else None,
        )
