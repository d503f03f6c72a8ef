"""The outcomes of sent records: acknowledged, refused, or appended without our header."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition

from ...outcomes import Unacknowledged, outcome, settled
from .partition import PartitionState, Run
from .unstamped import RECORDS, UnstampedRecords, is_too_large

if TYPE_CHECKING:
    from ...host import Host
    from .entry import RecordEntry
    from .transactions import Transactions


class SendOutcomes:
    """The task of feeding the machine the outcomes of one app's sends.

    Args:
        host: whose machine is fed.
        unstamped: the unstamped records.
        transactions: None: the app has none.
    """

    def __init__(
        self,
        host: Host,
        unstamped: UnstampedRecords,
        entering: RecordEntry,
        transactions: Transactions | None,
    ) -> None:
        self._host = host
        self._machine = host.machine
        self._unstamped, self._entering, self._transactions = unstamped, entering, transactions

    def sent(
        self,
        way: PartitionState,
        effect: Effect,
        seq: int | None,
        future: asyncio.Future[Any],
        transactional_id: str | None,
    ) -> None:
        """Count a record, in the instant in which it was appended. Never raises. `seq`: None: it has no stamp."""
        try:
            if self._machine.process is None:
                self._entering.withdraw(effect)
                return
            if seq is None:
                self._unstamped.left(way.tp, future)
            if transactional_id is not None and self._transactions is not None:
                settle = partial(self.settled_in_transaction, future, effect, way.tp, seq)
                self._transactions.sent(transactional_id, future, settle)
            else:
                if not way.pending:
                    future.add_done_callback(partial(self.acked, way))
                way.pending.append((future, effect, seq))
            if self._transactions is not None:
                way.latest = future
        except Exception as error:
            self._host.stand_down("to record that a record is sent", error)

    def not_sent(self, tp: TopicPartition, effect: Effect, error: BaseException, *, waited: bool) -> None:
        """Take back a record that was not appended; `waited`: in a buffer, so its writer is not notified."""
        if waited and is_too_large(error):
            self.refused_at_once(effect, tp, repr(error))
        else:
            self._entering.withdraw(effect)

    def batch_settled(
        self, way: PartitionState, batch: Any, runs: list[Run], future: asyncio.Future[Any]
    ) -> None:
        """Settle the records of a batch together; a callback of asyncio's."""
        try:
            if way.batch is batch:
                way.batch, way.runs = None, []
            if (halved := getattr(batch, RECORDS, None)) is not None:
                self._halved_settled(way, runs, halved)
                return
            offset, failure = outcome(future)
            unstamped = future in self._unstamped.futures
            for run in runs:
                place = batch.record_count - 1 if unstamped else run.place + run.count - 1
                last = None if unstamped else run.first + run.count - 1
                at = offset + place
                if failure is None and last is not None:  # at once: nearly every record comes by here
                    actions = self._machine.send_acked(run.effect, way.tp, last, at, run.count)
                else:
                    actions = settled(self._machine, run.effect, way.tp, last, (at, failure), run.count)
                if actions:
                    self._host.do(actions)
        except Exception as error:
            self._host.stand_down("to record what became of sends", error)

    def _halved_settled(
        self, way: PartitionState, runs: list[Run], records: Sequence[asyncio.Future[Any]]
    ) -> None:
        """Settle the records of a batch that was sent in parts, each by its own outcome."""
        if (late := next((record for record in records if not record.done()), None)) is not None:
            late.add_done_callback(partial(self._halved_again, way, runs, records))
            return
        for run in runs:
            for n in range(run.count):
                self._settled(run.effect, way.tp, run.first + n, records[run.place + n])

    def _halved_again(
        self,
        way: PartitionState,
        runs: list[Run],
        records: Sequence[asyncio.Future[Any]],
        _: asyncio.Future[Any],
    ) -> None:
        try:
            self._halved_settled(way, runs, records)
        except Exception as error:
            self._host.stand_down("to record what became of sends", error)

    def acked(self, way: PartitionState, _: asyncio.Future[Any]) -> None:
        """Settle sends in the order of their partition, mostly many records at once: only the first unsettled one has
        a callback."""
        try:
            pending = way.pending
            while pending and pending[0][0].done():
                future, effect, seq = pending.popleft()
                self._settled(effect, way.tp, seq, future)
            if pending:
                pending[0][0].add_done_callback(partial(self.acked, way))
        except Exception as error:
            self._host.stand_down("to record what became of sends", error)

    def settled_in_transaction(
        self,
        sent: asyncio.Future[Any],
        effect: Effect,
        tp: TopicPartition,
        seq: int | None,
        future: asyncio.Future[Any] | Unacknowledged,
    ) -> None:
        try:
            self._settled(effect, tp, None if sent in self._unstamped.futures else seq, future)
        except Exception as error:
            self._host.stand_down("to record what became of sends", error)

    def refused_at_once(self, effect: Effect, tp: TopicPartition, reason: str) -> None:
        """Note a message from the buffer that the producer itself refuses: the table has the write, and its changelog
        never will."""
        with self._host.failing_open("to record a refused send", for_good=True):
            self._host.do(self._machine.unstamped_failed(effect, tp, reason))
            self._host.do(self._machine.send_appended(effect))  # nothing waits for it to leave any more

    def _settled(
        self,
        effect: Effect,
        tp: TopicPartition,
        seq: int | None,
        future: asyncio.Future[Any] | Unacknowledged,
    ) -> None:
        if isinstance(future, Unacknowledged):
            found: tuple[int, Unacknowledged | None] = (-1, future)
        else:
            found, seq = outcome(future), None if future in self._unstamped.futures else seq
        actions = settled(self._machine, effect, tp, seq, found)
        if actions:
            self._host.do(actions)
