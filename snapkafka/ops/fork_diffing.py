"""`fork diff`: the changes in a fork since its snapshot, table by table, by their names in production."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.errors import ForkRefusedError
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, prefix_of, prefixed
from snapkafka.protocol.records import Fork
from snapkafka.query.engine import Placed, engine, in_thread
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_check import trusted
from snapkafka.recovery.session import admin_of
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest, sql_text

from .diffing import Difference, compare_views, compared, require_keys

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Columns that hold names, by table.
NAMES = {
    "state": ("app", "changelog_topic"),
    "channels": ("sender_app", "receiver_app", "topic"),
}


async def diff_fork(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    *,
    after: str = "latest",
    storage: str = "",
    keys: int = 0,
    values: bool = False,
) -> Difference:
    """Compare the snapshot from which a fork was created with one of the fork.

    Args:
        namespace: of the forked system.
        after: a snapshot of the fork: id, epoch or `latest`, its last good one.
        storage: of the first snapshot; empty: its place in the ledger.
        keys: the number of keys to name, of each change of each table.
        values: whether these have their values.

    Raises:
        ForkRefusedError: there is no such fork.
        UnknownSnapshotError: it has no such snapshot.
        StorageError: files are missing, unreadable or altered.
    """
    require_keys(keys, values=values)
    require_extra("query", "a comparison")
    found = await _found(where, prefixed(fork, namespace))
    if found is None:
        raise ForkRefusedError(f"there is no fork {fork}", hint="`snapkafka fork list` lists those there are")
    (old,) = await manifest_places(where, namespace, [found.snapshot], storage=storage)
    (new,) = await manifest_places(where, prefixed(fork, namespace), [after], good=True)
    older, newer = Placed(*read_manifest(old)), Placed(*read_manifest(new))
    trust = await trusted(None, [older, newer])
    with engine({"before": older, "fork": newer}) as database:

        def work_() -> Difference:
            _name_as_in_production(database, fork)
            tables, named, channels = compare_views(database, keys, values=values)
            return Difference(
                before=compared(older.manifest),
                after=compared(newer.manifest),
                tables=tables,
                keys=named,
                channels=channels,
                progress=(),
                trust=trust,
            )

        return await in_thread(database, work_)


async def _found(where: Connection | Cluster, namespace: str) -> Fork | None:
    """Read the fork of this namespace from its ledger; None: there is none."""
    async with admin_of(where) as admin:
        there = await admin.describe_topics([LEDGER + namespace])
    if LEDGER + namespace not in there:
        return None
    async with opened(where, namespace) as work:
        return work.reading.state.fork


def _name_as_in_production(database: DuckDBPyConnection, fork: str) -> None:
    prefix = sql_text(prefix_of(fork))
    database.execute("CREATE SCHEMA after")
    for table, columns in NAMES.items():
        names = ", ".join(f"replace({column}, {prefix}, '') AS {column}" for column in columns)
        database.execute(f"CREATE VIEW after.{table} AS SELECT * REPLACE ({names}) FROM fork.{table}")
