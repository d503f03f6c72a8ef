"""The gate in front of a process: it asks the machine whether a record may pass now (R2).

A process turns red only when it has handed over its state (`Participant.cut`), so nothing here can make it red. A
record or marker of a higher epoch than the machine's waits, and so does all that follows it in its partition, until
the machine has been fed the trigger of that epoch. That is the cut of this process, or the end of its snapshot. An
epoch that the ledger does not hold is not believed: then the record is external, and passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.records.read import Record
from snapkafka.ports import Ledger
from snapkafka.protocol.actions import ReadLedgerTo
from snapkafka.protocol.events import ChannelEnded, MarkerMet, RecordMet
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .host import ForeignHost
from .ledger_task import RETRY_S


class Pass(Enum):
    """The answer for a record: it passes now, never (it is a marker, or void), or not yet."""

    TAKE = 1
    SKIP = 2
    HOLD = 3


class Gate:
    """The gate of one process.

    Args:
        ledger_id: of the headers that count.
        changed: called when a record that was held may be asked for again.
    """

    def __init__(
        self,
        host: ForeignHost,
        ledger: Ledger,
        *,
        ledger_id: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self._host, self._machine = host, host.machine
        self._ledger, self._ledger_id, self._changed = ledger, ledger_id, changed
        #: Offset of the ledger that a record waits for -> how far it has to be read for that; None: it is being asked.
        self._goals: dict[int, int | None] = {}
        self._ended: dict[TopicPartition, int] = {}  # of each partition, the last marker that was recorded

    def ask(self, record: Record) -> Pass:
        """Check the next record of a partition; to be called again for the same record after `HOLD`."""
        tp, machine = record.tp, self._machine
        if record.header is None:
            return self._bare(record)
        stamp = wire.read(record.header, self._ledger_id(), wire.tp_check(tp.topic, tp.partition))
        if stamp is None:
            return self._bare(record)
        if stamp.marker:
            if not self._met(MarkerMet(epoch=stamp.epoch)):
                return Pass.HOLD
            self._channel_ended(record, stamp)
            return Pass.SKIP
        if machine.ledger.is_void(stamp.process, tp, record.offset):
            return Pass.SKIP
        if stamp.epoch > machine.colours.epoch and not self._met(RecordMet(epoch=stamp.epoch)):
            return Pass.HOLD
        return Pass.TAKE

    @staticmethod
    def _bare(record: Record) -> Pass:
        """Pass an external record; drop a marker that lost its header, as it carries no information and a decoder
        would fail on it."""
        return Pass.SKIP if record.value is None and wire.is_marker_key(record.key) else Pass.TAKE

    def _channel_ended(self, record: Record, stamp: wire.Stamp) -> None:
        if record.offset <= self._ended.get(record.tp, -1):
            return  # it is read again
        self._ended[record.tp] = record.offset
        ended = ChannelEnded(
            tp=record.tp,
            offset=record.offset,
            sender=stamp.process,
            epoch=stamp.epoch,
            previous=stamp.previous,
        )
        self._host.feed(ended)

    def _met(self, event: RecordMet | MarkerMet) -> bool:
        """Feed the machine. False: it wants the ledger read first, which waits for the state of the process."""
        asked = self._host.feed(event)
        if not isinstance(asked, ReadLedgerTo):
            return True
        if asked.offset not in self._goals:
            self._goals[asked.offset] = None
            self._host.spawn(self._ask_goal(asked.offset))
        goal = self._goals[asked.offset]
        if goal is None or self._machine.ledger.end < goal:
            return False
        del self._goals[asked.offset]
        return True  # the ledger ends before that: the epoch is forged, or of another one

    async def _ask_goal(self, offset: int) -> None:
        """Ask for the end of the ledger: the trigger of a true epoch is in it before any record of that epoch is
        sent."""
        while True:
            try:
                self._goals[offset] = min(offset + 1, await self._ledger.end())
            except SnapkafkaError:
                await asyncio.sleep(RETRY_S)
                continue
            self._changed()
            return
