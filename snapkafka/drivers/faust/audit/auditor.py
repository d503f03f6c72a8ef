"""The audit of one app in one worker: asked for by a trigger, taken at the cut, sent in the background (R15).

Whatever fails here, the snapshot stands and the app runs on: the audit reports why it did not happen.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from snapkafka.kafka.ledger.ledger_producer import LedgerProducer
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.audit import TOPIC, Audited, chunk, last

from ..describe import is_global
from ..support import connection_of
from .scan import Scan, ScannedTable

if TYPE_CHECKING:
    from ..driver import FaustDriver

#: An audit that is not done by then ends.
WITHIN_S: Final = 300.0
#: What a failure is not followed by.
GOES_ON: Final = "the snapshot stands, without an audit of this worker"
BUSY: Final = "the audit of an earlier snapshot still runs"
SEVERAL: Final = "one cut served several snapshots; the latest is audited"


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
