"""Erased keys that a storage still holds: every snapshot in it is read, table by table.

A restore and a fork write no erased key, but their snapshots stay as they are until they are pruned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import AROUND, INPUTS, STATE, STATE_DELTA
from snapkafka.ports import Cluster
from snapkafka.query.engine import Placed, engine
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_heads import heads, oldest_first
from snapkafka.recovery.suppression import Suppression
from snapkafka.store import Store, read_manifest

from .editing import Editing
from .plan import Plan, Recovered, StillHeld
from .stored_rows import BATCH_ROWS, rows_of_state

MESSAGES: Final = "messages"
#: Texts of the table `around` end here (`assembly.spark.tables.around`).
PREVIEW_CHARS: Final = 240


async def still_held(
    where: Connection | Cluster | None,
    namespace: str,
    name: str,
    suppression: Suppression,
    *,
    storage: str = "",
) -> tuple[StillHeld, ...]:
    """List the snapshots that hold an erased key, and those that could not be examined, oldest first.

    Args:
        where: not needed with `storage`.
        name: id, epoch or `latest` of a snapshot in that storage.
        storage: of the snapshots; empty: its place in the ledger.

    Raises:
        UnknownSnapshotError, StorageError: there is no such snapshot, or the storage cannot be read.
    """
    (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    store, _ = read_manifest(place)
    return await asyncio.to_thread(lambda: tuple(_held_in(store, suppression)))


async def with_held(done: Recovered, plan: Plan, notify: Callable[[str], None]) -> Recovered:
    """Add the snapshots that hold an erased key to a result. A failure is printed and ends nothing: the work is
    done."""
    suppression = plan.request.suppress
    if suppression is None or not plan.place:
        return done
    notify("it is done; reading which snapshots still hold an erased key")
    try:
        store, _ = read_manifest(plan.place)
        found = await asyncio.to_thread(lambda: tuple(_held_in(store, suppression)))
    except SnapkafkaError as error:
        notify(f"what the storage still holds of erased keys is not known: {error}")
        return replace(done, still_held=None)
    return replace(done, still_held=found)


def _held_in(store: Store, suppression: Suppression) -> Iterator[StillHeld]:
    for head in oldest_first(heads(store)):
        tables, problems = [], []
        try:
            placed = Placed(store, store.read(head.id))
        except SnapkafkaError as error:
            placed, problems = None, [error.message]
        for table in () if placed is None else _tables_of(placed):
            assert placed is not None
            try:
                if _holds(placed, table, suppression):
                    tables.append(table)
            except SnapkafkaError as error:
                problems.append(f"{table}: {error.message}")
        if tables or problems:
            yield StillHeld(
                id=head.id,
                epoch=head.epoch,
                namespace=head.namespace,
                tables=tuple(tables),
                problems=tuple(problems),
            )


def _tables_of(placed: Placed) -> list[str]:
    there = {table.name for table in placed.manifest.tables}
    return [STATE, *(name for name in (STATE_DELTA, MESSAGES, INPUTS, AROUND) if name in there)]


def _holds(placed: Placed, table: str, suppression: Suppression) -> bool:
    """Return whether a table of a snapshot holds an erased key.

    Raises:
        BadInputError: a row of it cannot be examined.
        StorageError: it cannot be read.
    """
    editing = Editing(placed.manifest.captured, suppression)
    if table == STATE:
        return editing.erases_any(rows_of_state(placed))
    if table == STATE_DELTA:  # a key that was deleted since the parent stands in it
        return editing.erases_any(rows_of_state(placed, STATE_DELTA))
    if table == AROUND:
        return editing.erases_any(_previews(placed, with_values=bool(suppression.sql)))
    return editing.erases_any(_records(placed, table))


def _records(placed: Placed, table: str) -> Iterable[KafkaRecord]:
    (schema,) = (it.schema for it in placed.manifest.tables if it.name == table)
    headers = "headers" if "headers" in {column.name for column in schema} else "NULL"
    with engine({"main": placed}) as database:
        done = database.execute(
            f'SELECT topic, "partition", "offset", key_raw, value_raw, {headers} FROM {table}'
        )
        while rows := done.fetchmany(BATCH_ROWS):
            for topic, partition, offset, key, value, found in rows:
                own = tuple((header["key"], header["value"]) for header in found or ())
                yield KafkaRecord(topic, partition, offset, key, value, own, -1)


def _previews(placed: Placed, *, with_values: bool) -> Iterable[KafkaRecord]:
    """Read the table `around`, whose texts are shortened, and missing if the bytes are not text.

    Raises:
        BadInputError: a shortened or missing text may name an erased key.
    """
    with engine({"main": placed}) as database:
        done = database.execute(f'SELECT topic, "partition", "offset", key, value, bytes FROM {AROUND}')
        while rows := done.fetchmany(BATCH_ROWS):
            for topic, partition, offset, key_text, value_text, size in rows:
                key, value = (None if it is None else it.encode() for it in (key_text, value_text))
                compared = (key_text, value_text) if with_values else (key_text,)
                cut_off = any(text is not None and len(text) >= PREVIEW_CHARS for text in compared)
                missing = None in compared and (size or 0) > len(key or b"") + len(value or b"")
                if cut_off or missing:
                    raise BadInputError(
                        f"a text of {topic}[{partition}] at offset {offset} is {'cut off' if cut_off else 'missing'}",
                        hint="prune the snapshot",
                    )
                yield KafkaRecord(topic, partition, offset, key, value, (), -1)
