"""The outgoing records of a Faust app: each gets its colour where it enters and its stamp where it leaves.

Faust sends in two ways. `producer.send` is called in the context of the event. Table changelogs and `send_soon` are
put into `producer.buffer`. Mostly they can leave at once (`fast_path`). The others leave later from a background task,
so their colour is taken at `buffer.put` and attached as a header that is not bytes yet (an `Effect`); `send` detaches
it.

Taking a seq and appending the record must be one step: otherwise, with a full batch, a later seq can get an earlier
offset. Mostly they are one step without an await (`fast_path`). Where a record has to wait (for a full batch, a marker
that is due, a transaction, ...), one lock per partition covers both, and while senders wait for it, none takes the
fast path past them. A marker is sent under that lock before the first red record (`markers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from snapkafka.wire import headers as wire

from ...markers import Markers
from ..describe import in_transactions
from ..plain_headers import without_ours
from .carried_effect import attach, split
from .entry import RecordEntry
from .fast_path import FastPath
from .partition import Partitions
from .settle import SendOutcomes
from .slow_path import SlowPath
from .transactions import Transactions
from .unstamped import UnstampedRecords

if TYPE_CHECKING:
    from ...host import Host
    from ...stamps import Stamps
    from ...waiting import LedgerWaits
    from ..inbound.running_events import Events

Send = Callable[..., Awaitable["asyncio.Future[Any]"]]


class OutgoingRecords:
    """The sending side of one app's producer.

    Args:
        host: whose machine gives colours and seqs.
        producer: Faust's producer; its `send` and its buffer's `put` are patched.
        note: adds metadata to offsets that transactions commit.
    """

    def __init__(
        self,
        host: Host,
        producer: Any,
        *,
        stamps: Stamps,
        events: Events,
        waiting: LedgerWaits,
        note: Callable[[Any], Any],
    ) -> None:
        self._host = host
        self._machine = host.machine
        self._waiting = waiting
        self._send: Send = producer.send
        self._entering = RecordEntry(host, events)
        partitions, unstamped = Partitions(), UnstampedRecords(host, producer, stamps)
        self.markers = Markers(
            host,
            stamps,
            partitions,
            lambda tp, key, body: self._send(tp.topic, key, None, tp.partition, None, [(wire.HEADER, body)]),
        )
        self.transactions = Transactions(producer, note) if in_transactions(host.app) else None
        settling = SendOutcomes(host, unstamped, self._entering, self.transactions)
        self._fast = FastPath(
            host,
            producer,
            stamps=stamps,
            events=events,
            partitions=partitions,
            unstamped=unstamped,
            settling=settling,
        )
        self._put, self._theirs = self._fast.put, producer.buffer.put
        producer.send = self.send
        producer.buffer.put = self.put
        self._slow = SlowPath(
            host,
            producer,
            self._send,
            partitions=partitions,
            entering=self._entering,
            stamps=stamps,
            markers=self.markers,
            unstamped=unstamped,
            settling=settling,
            waiting=waiting,
            in_transactions=self.transactions is not None,
        )

    # -- Faust calls these ------------------------------------------------------------------------------------

    def put(self, fut: Any) -> None:
        """Replace `ProducerBuffer.put`: the colour of a table write or `send_soon` is that of the event that calls
        it."""
        try:
            if self._fast.put_at_once(fut):
                return
            self._enter(fut)
        except Exception as error:
            self._host.stand_down("to record a send", error)
        try:
            self._put(fut)
        except Exception as error:
            self._host.stand_down("to put a record into Faust's buffer", error)
            self._theirs(fut)

    def _enter(self, fut: Any) -> None:
        """Attach the effect until the message reaches `send`, also while this process has no id: it may have one when
        the message leaves, and the event may be over by then."""
        if not self._host.absent:
            effect = self._entering.entered()
            if effect is not None:
                attach(fut, effect)

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
        *,
        transactional_id: str | None = None,
    ) -> Awaitable[Any]:
        """Replace `Producer.send`: stamp and append; return what Faust returns, a future of the record's metadata."""
        others: Any = ()
        try:
            effect, others = split(headers) if headers else (None, ())
            if self._machine.process is None and not await self._waiting.for_identity():
                if effect is not None:  # it entered when there was a process: nobody waits for it any more
                    self._entering.withdraw(effect)
                sent = None
            else:
                if partition is None:
                    partition = self._fast.partition(topic, key)
                if partition is not None:
                    future = self._fast.append(topic, partition, effect, others, key, value, timestamp)
                    if future is not None:
                        return future
                sent = await self._slow.send(
                    effect, (topic, key, value, partition, timestamp), others, transactional_id
                )
        except Exception as error:
            self._host.stand_down("to record a send", error)
            sent, others = None, without_ours(headers)
        if sent is None:
            return await self._send(
                topic, key, value, partition, timestamp, others or None, transactional_id=transactional_id
            )
        if sent.error is not None:
            raise sent.error
        appended: Awaitable[Any] = sent.future
        return appended
