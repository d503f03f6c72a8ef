"""The audit of one app in one worker: asked for by a trigger, taken at the cut, sent in the background (R15).

Whatever fails here, the snapshot stands and the app runs on: the audit reports why it did not happen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from snapkafka.kafka.ledger.ledger_producer import LedgerProducer
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.audit import TOPIC, Audited, chunk, last

from ..connection import connection_of
from .image import TableImage, images
from .scan import Scan

if TYPE_CHECKING:
    from ...process import Process
    from ..tables.changelogs import Tables
    from ..tables.reads import Reads

#: An audit that is not done by then ends.
WITHIN_S: Final = 300.0
#: What a failure is not followed by.
GOES_ON: Final = "the snapshot stands, without an audit of this worker"
BUSY: Final = "the audit of an earlier snapshot still runs"
SEVERAL: Final = "one cut served several snapshots; the latest is audited"


class TableAudit:
    """The audit of one app.

    Args:
        host: whose machine has cut.
        reads: notifies a scan before an object is handed out.
        tables: knows how far copies of global tables have come.
    """

    def __init__(self, host: Process, reads: Reads, tables: Tables) -> None:
        self._host, self._reads, self._tables = host, reads, tables
        self._running: asyncio.Task[None] | None = None

    def begin(self, asked: list[int]) -> None:
        """Audit the tables as they are now, for the snapshots of this cut that ask for it. Never raises."""
        try:
            self._begin(asked)
        except Exception as error:
            self._host.log_failed("to audit its tables", error, GOES_ON)

    def _begin(self, asked: list[int]) -> None:
        *earlier, epoch = asked
        process = self._host.machine.process
        if process is None:
            return
        refused = dict.fromkeys(earlier, SEVERAL)
        if self._running is not None and not self._running.done():
            refused[epoch] = BUSY
        for at, why in refused.items():
            self._host.spawn(self._tell(Audited(epoch=at, process=process, reason=why)))
        if epoch in refused:
            return
        started = time.perf_counter()
        found = self._images(epoch)
        scan = self._reads.scan = Scan(found)
        pause_us = round((time.perf_counter() - started) * 1e6)
        audited = Audited(epoch=epoch, process=process, pause_us=pause_us)
        self._running = self._host.spawn(self._tell(audited, scan, found))

    def _images(self, epoch: int) -> list[TableImage]:
        machine = self._host.machine
        writes_on = machine.colours.white_running(epoch)
        recovered = {TopicPartition(end.topic, end.partition): end.end for end in machine.inputs.tables}

        def judged_below(table: Any, tp: TopicPartition) -> int | None:
            if (applied := self._tables.applied(table, tp)) is not None:
                return applied
            if not writes_on:
                return None
            sent = machine.colours.sent.get(tp)
            return max(recovered.get(tp, 0), sent.top if sent is not None else 0)

        return images(self._host.app, tuple(recovered), judged_below)

    # -- in the background --------------------------------------------------------------------------------------------

    async def _tell(
        self, audited: Audited, scan: Scan | None = None, found: Sequence[TableImage] = ()
    ) -> None:
        """Send the result of an audit; before it the pieces of a scan as they come."""
        topic = TOPIC + self._host.config.namespace
        producer = LedgerProducer(connection_of(self._host.app), topic, compression=None)
        try:
            if scan is not None:
                reason, chunks = await self._relay(scan, audited, producer)
                tables = tuple(
                    replace(image.described, reason=scan.failed.get(n, image.reason))
                    for n, image in enumerate(found)
                )
                audited = replace(audited, reason=reason, chunks=chunks, tables=tables)
            await producer.send(b"", last(audited), ())
        except Exception as error:
            self._host.log_failed("to audit its tables", error, GOES_ON)
        finally:
            if scan is not None:
                self._reads.scan = None
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
