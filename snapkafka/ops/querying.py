"""`query`: run SQL on the tables of assembled snapshots, by DuckDB on their Parquet files, without broker or Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapkafka.kafka.ledger.manifest_match import StoredManifest
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.query.engine import MAIN, Bounds, Placed, engine, in_thread
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_check import Trust, trusted
from snapkafka.query.sandbox import Asked, select_apart
from snapkafka.query.sql import named_in, over_all, select
from snapkafka.runtime.extras import require_extra
from snapkafka.store import read_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """The result of a query, in values that JSON has: bytes as hex digits, times as ISO 8601, in UTC.

    `id`, `epoch`, `verdict` are those of the snapshot whose tables need no schema. `more`: there are more `rows`.
    `trust`: the integrity checks before the tables were read.
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
    bounds: Bounds | None = None,
) -> Queried:
    """Run a SELECT. The tables of the snapshot are views `state`, `messages` and so on; those of every other one in
    the same storage are available with its id as a schema: `"friday".state`. `all_state` and `all_messages` have the
    rows of all of them.

    Args:
        where: not needed with `storage` or `manifest`.
        name: id, epoch or `latest`, the last good one.
        manifest: the place of the manifest.
        rows_max: the limit of rows; None: all.
        bounds: the limits of its use of this machine; None: DuckDB's own.

    Raises:
        TimedOutError: it ran longer than `bounds` allow.
        BadInputError: the SQL is invalid, not one SELECT, or fails.
        StorageError: files are missing, unreadable or altered; the manifest is not the one that was verified.
        DependencyMissingError: DuckDB is not installed.
    """
    require_extra("query", "a query")
    if manifest:
        place = manifest
    else:
        (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    found: StoredManifest | Manifest
    if bounds is not None:
        asked = Asked(places={MAIN: place}, sqls=(sql,), bounds=bounds, rows_max=rows_max)
        done = await select_apart(asked)
        found = done.examined.manifests[0]
        columns, rows = done.answers[0].columns, done.answers[0].mappings()
        trust = await done.examined.trusted(where)
    else:
        snapshots = await asyncio.to_thread(_named_in, sql, place)
        found = snapshots[MAIN].manifest
        trust = await trusted(where, snapshots.values())
        with engine(snapshots, over_all=over_all(sql)) as database:
            columns, rows = await in_thread(database, lambda: select(database, sql, rows_max))
    return Queried(
        id=found.id,
        epoch=found.epoch,
        verdict=found.verdict,
        columns=columns,
        rows=tuple(rows[:rows_max]),
        more=rows_max is not None and len(rows) > rows_max,
        trust=trust,
    )


def _named_in(sql: str, place: str) -> dict[str, Placed]:
    return named_in(sql, *read_manifest(place))
