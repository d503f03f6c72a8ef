"""The rows of a table as they are in one instant, in the bytes that its changelog would have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.audit import COMPARABLE, AuditedTable, content, content_of_set

from ..describe import codec_name, expires_ms, is_global, of_sets

#: A key and its value, as they are compared.
Row = tuple[bytes, bytes]
#: The operation by which a set is created at once (`faust.tables.sets`).
UPDATE: Final = 15


class TableImage:
    """A table of the app, and what it holds.

    Args:
        table: Faust's.
        partitions: those that are compared.
        judged_below: see `AuditedTable`.
    """

    def __init__(self, table: Any, partitions: tuple[int, ...], judged_below: dict[int, int]) -> None:
        self.table = table
        self._topic = table.changelog_topic
        codecs = codec_name(table.key_serializer), codec_name(table.value_serializer)
        self._as_json = codecs[0] == "json", codecs[1] == "json"
        self.store = getattr(table.data, "storage", table.data) if not of_sets(table) else table.data
        self.reason = ""
        if unknown := sorted(set(codecs) - COMPARABLE):
            self.reason = f"codec {unknown[0]} may write one value as different bytes"
        elif not (self.in_memory or self.in_rocksdb):
            self.reason = f"its store, {type(self.store).__name__}, has no instant of its own"
        self.described = AuditedTable(
            name=table.name,
            changelog=table.changelog_topic_name,
            partitions=partitions,
            as_json=self._as_json,
            sets=of_sets(table),
            expires=expires_ms(table) > 0,
            judged_below=judged_below,
            reason=self.reason,
        )

    @property
    def in_memory(self) -> bool:
        """Whether all that it holds are objects of this process."""
        return of_sets(self.table) or _in_memory(self.store)

    @property
    def in_rocksdb(self) -> bool:
        """Whether it lies in databases whose iterators see one instant."""
        return isinstance(getattr(self.store, "_dbs", None), dict) and hasattr(self.store, "_visible_items")

    # -- its rows -----------------------------------------------------------------------------------------------------

    def objects(self) -> dict[Any, Any]:
        """Return the objects of a table in memory: the very dictionary."""
        found: dict[Any, Any] = self.store.data
        return found

    def holds(self, key: Any) -> bool:
        """Return whether a key counts here: a standby's copy lags behind."""
        partition = getattr(self.store, "_key_partition", {}).get(key)
        return partition is None or partition in self.described.partitions

    def row(self, key: Any, value: Any) -> Row | None:
        """Return a row as it is compared; None: the changelog has no such key."""
        if self.described.sets:
            if not value:
                return None
            operation = self._dumped(self._topic.schema.dumps_key, (UPDATE, key), self.table.key_serializer)
            members = self._dumped(
                self._topic.schema.dumps_value, [list(value), []], self.table.value_serializer
            )
            return content_of_set(operation, members)
        if value is None:
            return None  # Faust deletes a key whose value is None from the changelog
        return (
            content(
                self._dumped(self._topic.schema.dumps_key, key, self.table.key_serializer), self._as_json[0]
            ),
            content(
                self._dumped(self._topic.schema.dumps_value, value, self.table.value_serializer),
                self._as_json[1],
            ),
        )

    def _dumped(self, dump: Callable[..., Any], item: Any, codec: Any) -> bytes:
        raw, _ = dump(self.table.app, item, serializer=codec, headers=None)
        return bytes(raw)

    def stored_rows(self) -> Iterator[Row]:
        """Return an iterator over a table in RocksDB that sees it as it is now, however slowly it is read."""
        found = [
            self.store._visible_items(db)
            for partition, db in self.store._dbs.items()
            if partition in self.described.partitions
        ]
        first = [next(items, None) for items in found]  # from the first item on an iterator has its instant

        def rows() -> Iterator[Row]:
            for item, items in zip(first, found, strict=True):
                if item is not None:
                    yield self._stored(item)
                    yield from map(self._stored, items)

        return rows()

    def _stored(self, item: tuple[bytes, bytes]) -> Row:
        return content(item[0], self._as_json[0]), content(item[1], self._as_json[1])


def _in_memory(store: Any) -> bool:
    from faust.stores.memory import Store

    return isinstance(store, Store)


def images(
    app: Any, held: tuple[TopicPartition, ...], judged_below: Callable[[Any, TopicPartition], int | None]
) -> list[TableImage]:
    """Return the tables of an app that have state in this worker.

    Args:
        held: the table partitions that the worker has.
        judged_below: the offset from which on records may be newer than this instant; None: none is.
    """
    found = []
    for table in app.tables.values():
        topic = table.changelog_topic_name
        tps = [tp for tp in held if tp.topic == topic]
        if is_global(table):
            tps = [TopicPartition(*tp) for tp in app.tables.recovery.tp_to_table if tp.topic == topic]
        if tps:
            below = {tp.partition: at for tp in tps if (at := judged_below(table, tp)) is not None}
            found.append(TableImage(table, tuple(sorted(tp.partition for tp in tps)), below))
    return found


def unencodable(error: Exception) -> str:
    """Return the reason why the rows of a table cannot be made."""
    return f"its rows cannot be encoded: {error!r}"[:200]
