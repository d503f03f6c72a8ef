"""What a Faust app sends: every record passes here, gets its colour where it enters and its stamp where it leaves.

Faust has two ways out. `producer.send` is called in the context of the event. Table changelogs and `send_soon` go
through `producer.buffer` and leave from a background task later, so their colour is taken at `buffer.put` and rides
along as a header that is no bytes yet (an `Effect`); `send` takes it off again.

Stamp and append stand under one lock per partition: otherwise, with a full batch, a later seq can get an earlier
offset. A marker that is due goes out under the same lock before the first red record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.events import MarkerFailed, MarkerSent
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .transactions import Transactions, in_transactions

if TYPE_CHECKING:
    from snapkafka.protocol.actions import SendMarkers

    from .driver import FaustDriver

__all__ = ["Outgoing"]

logger = logging.getLogger("snapkafka")

Send = Callable[..., Awaitable["asyncio.Future[Any]"]]


class Outgoing:
    """The way out of one app's producer.

    Args:
        driver: whose machine says colours and seqs.
        producer: Faust's producer; its `send` and its buffer's `put` are led through here.
    """

    def __init__(self, driver: FaustDriver, producer: Any) -> None:
        self._driver = driver
        self._machine = driver.machine
        self._producer = producer
        self._send: Send = producer.send
        self._put: Callable[[Any], None] = producer.buffer.put
        self._locks: dict[TopicPartition, asyncio.Lock] = {}
        self._gates: dict[TopicPartition, asyncio.Lock] = {}
        self._due: dict[TopicPartition, list[SendMarkers]] = {}  # by epoch, the lowest first
        self.transactions: Transactions | None = None
        if in_transactions(driver.app):
            self.transactions = Transactions(producer)
            driver.machine.marks = (
                False  # see docs/design-notes.md: a marker would open a transaction, or overtake one
            )
        producer.send = self.send
        producer.buffer.put = self.put
        if producer.threaded_producer is not None:
            self._leave_the_thread(producer.buffer)
        self._attach: Callable[..., Any] = driver.app._attachments.put
        driver.app._attachments.put = self.attach

    def _leave_the_thread(self, buffer: Any) -> None:
        """`producer_threaded`: two producers cannot keep the order of seqs in one partition, so what the thread's own
        one would send goes the way of everything else."""

        def put_from_anywhere(fut: Any) -> None:
            """Other threads may call it, as they may without us."""
            if self._driver.runs_here():
                self.put(fut)
            else:
                self._driver.loop.call_soon_threadsafe(self.put, fut)

        self._put = buffer.pending.put_nowait
        buffer.queue = buffer.pending  # what `buffer.size` counts
        buffer.put = put_from_anywhere
        logger.info(
            "snapkafka: producer_threaded is set; while snapkafka is on, the app's own loop sends",
            extra=self._driver.about(),
        )

    # -- Faust calls these ------------------------------------------------------------------------------------

    def put(self, fut: Any) -> None:
        """`ProducerBuffer.put`: the colour of a table write or `send_soon` is that of the event that calls it."""
        self._enter(fut)
        self._put(fut)

    def attach(self, message: Any, channel: Any, *args: Any, **options: Any) -> Any:
        """`Attachments.put` (`stream_publish_on_commit`): likewise, though it leaves with the commit."""
        fut = self._attach(message, channel, *args, **options)
        if hasattr(fut.message.channel, "topics"):
            self._enter(fut)
        return fut

    def _enter(self, fut: Any) -> None:
        """The effect rides along until the message gets to `send`."""
        if self._machine.process is not None:
            effect = self._machine.send_entered(self._driver.events.cause())
            message = fut.message
            fut.message = message._replace(headers=[*_as_list(message.headers), (wire.HEADER, effect)])

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
        """`Producer.send`: stamp and append; returns what Faust returns, a future of the record's metadata."""
        effect, others = _take_effect(headers)
        if self._machine.process is None and not await self._driver.wait_for_identity():
            return await self._send(
                topic, key, value, partition, timestamp, others or None, transactional_id=transactional_id
            )
        if effect is None:
            effect = self._machine.send_entered(self._driver.events.cause())
        try:
            tp = await self._choose(topic, key, partition)
        except BaseException:
            self._driver.do(self._machine.send_withdrawn(effect))
            raise
        append = partial(
            self._send, topic, key, value, tp.partition, timestamp, transactional_id=transactional_id
        )
        if self._machine.classic and self._queues_up(tp, effect):
            return asyncio.ensure_future(self._send_when_allowed(tp, effect, others, append))
        return await self._append(tp, effect, others, append, transactional_id)

    # -- stamp and append -------------------------------------------------------------------------------------

    async def _append(
        self,
        tp: TopicPartition,
        effect: Effect,
        others: list[tuple[str, bytes]],
        append: Callable[..., Any],
        transactional_id: str | None = None,
    ) -> asyncio.Future[Any]:
        lock = self._locks.get(tp)
        if lock is None:
            lock = self._locks[tp] = asyncio.Lock()
        machine = self._machine
        async with lock:
            if machine.classic and (first := machine.first_marker(effect, tp)) is not None:
                self._due.setdefault(tp, []).append(first)
            while (due := self._due.get(tp)) and effect.epoch >= due[0].epoch:
                await self._append_marker(tp, due.pop(0))
            if effect.sent is not machine.colours.sent:  # it entered in an earlier life
                self._driver.do(machine.send_withdrawn(effect))
                effect = machine.send_entered_again(effect)
            seq = machine.send_stamped(effect, tp)
            stamp = self._driver.stamps.of(tp, effect, seq)
            try:
                future: asyncio.Future[Any] = await append(headers=[*others, (wire.HEADER, stamp)])
            except BaseException:
                machine.send_unstamped(effect, tp, seq)
                self._driver.do(machine.send_withdrawn(effect))
                raise
            settle = partial(self._acked, effect, tp, seq)
            if transactional_id is not None and self.transactions is not None:
                self.transactions.sent(transactional_id, future, settle)
            else:
                future.add_done_callback(settle)
        self._driver.do(machine.send_appended(effect))
        return future

    def _acked(self, effect: Effect, tp: TopicPartition, seq: int, future: asyncio.Future[Any] | str) -> None:
        machine = self._machine
        if isinstance(future, str):
            self._driver.do(machine.send_failed(effect, tp, seq, future))
        elif future.cancelled():
            self._driver.do(machine.send_failed(effect, tp, seq, "cancelled"))
        elif (error := future.exception()) is not None:
            self._driver.do(machine.send_failed(effect, tp, seq, repr(error)))
        elif (offset := future.result().offset) < 0:
            self._driver.do(
                machine.send_failed(effect, tp, seq, "the broker told no offset (producer_acks=0?)")
            )
        else:
            self._driver.do(machine.send_acked(effect, tp, seq, offset))

    async def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        """The partition, chosen by the app's own partitioner, before stamping."""
        if partition is None:
            client = self._producer._producer.client
            if client.cluster.partitions_for_topic(topic) is None:
                await client._wait_on_metadata(topic)
            partition = self._producer.key_partition(topic, key).partition
        return TopicPartition(topic, partition)

    # -- markers ----------------------------------------------------------------------------------------------

    def send_markers(self, action: SendMarkers) -> None:
        """Each partition gets its marker before its next red record, and soon in any case."""
        for tp in action.tps:
            self._due.setdefault(tp, []).append(action)
        self._driver.spawn(self._flush_markers(action))

    async def _flush_markers(self, action: SendMarkers) -> None:
        for tp in action.tps:
            async with self._locks.setdefault(tp, asyncio.Lock()):
                due = self._due[tp]
                while due and due[0].epoch <= action.epoch:
                    await self._append_marker(tp, due.pop(0))

    async def _append_marker(self, tp: TopicPartition, action: SendMarkers) -> None:
        """Under the lock of `tp`."""
        machine = self._machine
        if machine.process is None:
            return
        seq = machine.marker_stamped(tp)
        body = self._driver.stamps.marker(tp, action, seq)
        try:
            future = await self._send(
                tp.topic, wire.marker_key(machine.process), None, tp.partition, None, [(wire.HEADER, body)]
            )
        except Exception as error:
            machine.marker_unstamped(tp, seq)
            self._driver.feed(MarkerFailed(epoch=action.epoch, tp=tp, reason=repr(error)))
            return
        future.add_done_callback(partial(self._marker_acked, tp, action.epoch))

    def _marker_acked(self, tp: TopicPartition, epoch: int, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            reason = "cancelled" if future.cancelled() else repr(future.exception())
            self._driver.feed(MarkerFailed(epoch=epoch, tp=tp, reason=reason))
        else:
            self._driver.feed(MarkerSent(epoch=epoch, tp=tp, offset=future.result().offset))

    # -- classic mode: red sends wait until the markers are out ---------------------------------------------------

    def _queues_up(self, tp: TopicPartition, effect: Effect) -> bool:
        """Red sends queue up per partition; a white one that the markers wait for passes them by."""
        if self._machine.must_wait(effect):
            return True
        return self._gate(tp).locked() and not self._machine.is_awaited(effect)

    def _gate(self, tp: TopicPartition) -> asyncio.Lock:
        return self._gates.setdefault(tp, asyncio.Lock())

    async def _send_when_allowed(
        self, tp: TopicPartition, effect: Effect, others: list[tuple[str, bytes]], append: Callable[..., Any]
    ) -> Any:
        """As in 1985: markers first. In order per partition, and without standing in the way of white sends."""
        async with self._gate(tp):
            while self._machine.must_wait(effect):
                await self._driver.changed()
            future = await self._append(tp, effect, others, append)
        return await future


def _as_list(headers: Any) -> list[Any]:
    if not headers:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)


def _take_effect(headers: Any) -> tuple[Effect | None, list[tuple[str, bytes]]]:
    """The effect that rides along, if any, and the headers without any `_sk` (ours or a stranger's copy)."""
    if not headers:
        return None, []
    effect = None
    others = []
    for name, value in _as_list(headers):
        if name != wire.HEADER:
            others.append((name, value))
        elif isinstance(value, Effect):
            effect = value
    return effect, others
