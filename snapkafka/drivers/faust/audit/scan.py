"""A slow scan of the tables as they were in one instant, between the events of the app: copy-on-write by hand.

A table in memory is copied as references, which is fast; an object that may change in place is encoded before it is
handed out again. A table in RocksDB is read by iterators that see the instant in which they were made.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from snapkafka.wire.audit import COMPARABLE, AuditedTable, content, content_of_set, pack

from ..describe import codec_name, expires_ms, of_sets

#: A key and its value, as they are compared: in the bytes that the changelog would have, by their content.
Row = tuple[bytes, bytes]
#: The operation by which a set is created at once (`faust.tables.sets`).
UPDATE: Final = 15
#: The scan holds the loop for so long at a time, and leaves it alone for so long in between.
SLICE_S: Final = 0.003
REST_S: Final = 0.012
READ_WHOLE: Final = "the app read it as a whole while it was scanned"


class ScannedTable:
    """A table of the app, and what it holds from the instant in which this is made.

    Args:
        table: Faust's.
        partitions: those that are compared.
        judged_below: see `AuditedTable`.

    Attributes:
        failed: why it is not audited; empty: it is.
    """

    def __init__(self, table: Any, partitions: tuple[int, ...], judged_below: dict[int, int]) -> None:
        from faust.stores.memory import Store

        self._table, self._partitions, self._sets = table, partitions, of_sets(table)
        codecs = codec_name(table.key_serializer), codec_name(table.value_serializer)
        self._as_json = codecs[0] == "json", codecs[1] == "json"
        self._described = AuditedTable(
            name=table.name,
            changelog=table.changelog_topic_name,
            partitions=partitions,
            as_json=self._as_json,
            sets=self._sets,
            expires=expires_ms(table) > 0,
            judged_below=judged_below,
            reason="",
        )
        self.failed = ""
        #: What is not encoded yet of a table in memory, and what was encoded before its turn.
        self._due: dict[Any, Any] = {}
        self._early: deque[Row | None] = deque()
        self._stored: Iterator[tuple[bytes, bytes]] | None = None
        self._store = store = table.data if self._sets else getattr(table.data, "storage", table.data)
        if unknown := sorted(set(codecs) - COMPARABLE):
            self.failed = f"codec {unknown[0]} may write one value as different bytes"
        elif self._sets or isinstance(store, Store):
            self._due = dict(store.data)
        elif isinstance(getattr(store, "_dbs", None), dict) and hasattr(store, "_visible_items"):
            self._stored = self._stored_items()
        else:
            self.failed = f"its store, {type(store).__name__}, has no instant of its own"

    @property
    def described(self) -> AuditedTable:
        """What is said of it in the end."""
        return replace(self._described, reason=self.failed)

    def before_use(self, key: Any) -> None:
        """Encode a key first: it is about to be handed out, or changed."""
        if key in self._due:
            self._encode(key, self._due.pop(key))

    def read_whole(self) -> None:
        """Give it up: all of its objects are about to be handed out."""
        if self._due:
            self._give_up(READ_WHOLE)

    def _give_up(self, why: str) -> None:
        self.failed, self._due = why, {}

    def rows(self) -> Iterator[Row]:
        """Yield its rows, those of a table in memory as far as they were not replaced first."""
        try:
            if self._stored is not None:
                for key, value in self._stored:
                    yield content(key, self._as_json[0]), content(value, self._as_json[1])
            while self._early or self._due:
                if not self._early:
                    self._encode(*self._due.popitem())
                while self._early:
                    if (row := self._early.popleft()) is not None:
                        yield row
        except Exception as error:
            self._cannot_encode(error)

    def _cannot_encode(self, error: Exception) -> None:
        self._give_up(f"its rows cannot be encoded: {error!r}"[:200])

    def _encode(self, key: Any, value: Any) -> None:
        """Encode a key that counts here: a standby's copy lags behind."""
        partition = getattr(self._store, "_key_partition", {}).get(key)
        try:
            if partition is None or partition in self._partitions:
                self._early.append(self._row(key, value))
        except Exception as error:
            self._cannot_encode(error)

    def _row(self, key: Any, value: Any) -> Row | None:
        """Return a row as it is compared; None: the changelog has no such key."""
        schema, table = self._table.changelog_topic.schema, self._table
        if self._sets:
            if not value:
                return None
            operation = self._dumped(schema.dumps_key, (UPDATE, key), table.key_serializer)
            return content_of_set(
                operation, self._dumped(schema.dumps_value, [list(value), []], table.value_serializer)
            )
        if value is None:
            return None  # Faust deletes a key whose value is None from the changelog
        return (
            content(self._dumped(schema.dumps_key, key, table.key_serializer), self._as_json[0]),
            content(self._dumped(schema.dumps_value, value, table.value_serializer), self._as_json[1]),
        )

    def _dumped(self, dump: Callable[..., Any], item: Any, codec: Any) -> bytes:
        raw, _ = dump(self._table.app, item, serializer=codec, headers=None)
        return bytes(raw)

    def _stored_items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return an iterator over a table in RocksDB that sees it as it is now, however slowly it is read."""
        dbs = self._store._dbs
        found = [self._store._visible_items(dbs[number]) for number in dbs if number in self._partitions]
        first = [next(items, None) for items in found]  # from the first item on an iterator has its instant

        def all_items() -> Iterator[tuple[bytes, bytes]]:
            for item, items in zip(first, found, strict=True):
                if item is not None:
                    yield item
                    yield from items

        return all_items()


class Scan:
    """A scan of some tables, all as they are when this is made."""

    def __init__(self, tables: list[ScannedTable]) -> None:
        self.tables = tables
        self._by_table = {id(scanned._table): scanned for scanned in tables}

    def before_use(self, table: Any, key: Any) -> None:
        """Encode a key first: it is about to be handed out, or changed."""
        if (scanned := self._by_table.get(id(table))) is not None:
            scanned.before_use(key)

    def read_whole(self, table: Any) -> None:
        """Give up a table: all of its objects are about to be handed out."""
        if (scanned := self._by_table.get(id(table))) is not None:
            scanned.read_whole()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces that it packs, a slice of the loop at a time."""
        rows = ((number, *row) for number, scanned in enumerate(self.tables) for row in scanned.rows())
        until = time.perf_counter() + SLICE_S
        for piece in pack(rows):
            if piece:
                yield piece
            if time.perf_counter() > until:
                await asyncio.sleep(REST_S)
                until = time.perf_counter() + SLICE_S
