"""The audit: what the tables of a worker hold at its cut, sent for a comparison with their changelogs. Imported when a
snapshot first asks for one.

A slow scan of the tables as they were in one instant, between the events of the app: copy-on-write by hand. A table in
memory is copied as references, which is fast; an object that may change in place is encoded before it is handed out
again. A table in RocksDB is read by iterators that see the instant in which they were made.

Whatever fails here, the snapshot stands and the app runs on (R15): the audit reports why it did not happen.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from snapkafka.kafka.ledger.ledger_producer import LedgerProducer
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.audit import (
    COMPARABLE,
    TOPIC,
    Audited,
    AuditedTable,
    chunk,
    content,
    content_of_set,
    last,
    pack,
)

from .describe import codec_name, connection_of, expires_ms, is_global, of_sets

if TYPE_CHECKING:
    from .driver import FaustDriver

#: A key and its value, as they are compared: in the bytes that the changelog would have, by their content.
Row = tuple[bytes, bytes]
#: The operation by which a set is created at once (`faust.tables.sets`).
UPDATE: Final = 15
#: The scan holds the loop for so long at a time, and leaves it alone for so long in between.
SLICE_S: Final = 0.003
REST_S: Final = 0.012
READ_WHOLE: Final = "the app read it as a whole while it was scanned"
#: An audit that is not done by then ends.
WITHIN_S: Final = 300.0
#: What a failure is not followed by.
GOES_ON: Final = "the snapshot stands, without an audit of this worker"
BUSY: Final = "the audit of an earlier snapshot still runs"
SEVERAL: Final = "one cut served several snapshots; the latest is audited"


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
        if value is None and not self._as_json[1]:
            return None  # as raw bytes it deletes the key from the changelog; as JSON it is `null`
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


class TableAudit:
    """The audit of one app."""

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._running: asyncio.Task[None] | None = None

    def begin(self, asked: list[int]) -> None:
        """Audit the tables as they are now, for the snapshots of this cut that ask for it. Never raises."""
        with self._driver.failing_open("to audit its tables", then=GOES_ON):
            self._begin(asked)

    def _begin(self, asked: list[int]) -> None:
        *earlier, epoch = asked
        process = self._driver.machine.process
        if process is None:
            return
        refused = dict.fromkeys(earlier, SEVERAL)
        if self._running is not None and not self._running.done():
            refused[epoch] = BUSY
        for at, why in refused.items():
            self._driver.spawn(self._tell(Audited(epoch=at, process=process, reason=why)))
        if epoch in refused:
            return
        started = time.perf_counter()
        scan = self._driver.reads.scan = Scan(self._tables(epoch))
        pause_us = round((time.perf_counter() - started) * 1e6)
        audited = Audited(epoch=epoch, process=process, pause_us=pause_us)
        self._running = self._driver.spawn(self._tell(audited, scan))

    def _tables(self, epoch: int) -> list[ScannedTable]:
        """Return the tables of the app that have state in this worker."""
        app, machine, found = self._driver.app, self._driver.machine, list[ScannedTable]()
        writes_on = machine.colours.white_running(epoch)
        recovered = {TopicPartition(end.topic, end.partition): end.end for end in machine.inputs.tables}

        def judged_below(table: Any, tp: TopicPartition) -> int | None:
            """Return the offset from which on records may be newer than this instant; None: none is."""
            if (applied := self._driver.tables.applied(table, tp)) is not None:
                return applied
            if not writes_on:
                return None
            sent = machine.colours.sent.get(tp)
            return max(recovered.get(tp, 0), sent.top if sent is not None else 0)

        for table in app.tables.values():
            held = app.tables.recovery.tp_to_table if is_global(table) else recovered
            tps = [TopicPartition(*tp) for tp in held if tp[0] == table.changelog_topic_name]
            if tps:
                below = {tp.partition: at for tp in tps if (at := judged_below(table, tp)) is not None}
                found.append(ScannedTable(table, tuple(sorted(tp.partition for tp in tps)), below))
        return found

    # -- in the background --------------------------------------------------------------------------------------------

    async def _tell(self, audited: Audited, scan: Scan | None = None) -> None:
        """Send the result of an audit; before it the pieces of a scan as they come."""
        topic = TOPIC + self._driver.config.namespace
        producer = LedgerProducer(connection_of(self._driver.app), topic, compression=None)
        try:
            if scan is not None:
                reason, chunks = await self._relay(scan, audited, producer)
                tables = tuple(scanned.described for scanned in scan.tables)
                audited = replace(audited, reason=reason, chunks=chunks, tables=tables)
            await producer.send(b"", last(audited), ())
        except Exception as error:
            self._driver.log_failed("to audit its tables", error, GOES_ON)
        finally:
            if scan is not None:
                self._driver.reads.scan = None
            await producer.close()

    async def _relay(self, scan: Scan, audited: Audited, producer: LedgerProducer) -> tuple[str, int]:
        """Send the pieces as they come; return why they do not all come, and how many there were."""
        sent = 0
        try:
            async with asyncio.timeout(WITHIN_S), aclosing(scan.pieces()) as pieces:
                async for piece in pieces:
                    await producer.send(b"", chunk(audited.epoch, audited.process, sent, piece), ())
                    sent += 1
        except TimeoutError:
            return f"it was not done after {WITHIN_S:g} s", sent
        return "", sent
