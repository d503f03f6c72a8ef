"""Faust's producer and its buffer.

`producer.send` is called in the context of the event, and leads to aiokafka's, which stamps. Table changelogs and
`send_soon` are put into `producer.buffer`, from which a task sends one after the other. So a record there enters when
it is put, and is sent with the effect that it got then. Where no wait is needed, it leaves where it is put: past a
queue, a task and five coroutines, which cost more than a stamp (docs/evidence/performance.md). No record passes one
that waits in the buffer, and the same objects are notified of a record and its outcome as without us.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import faust.app.base
import faust.topics
import faust.transport.drivers.aiokafka as transport
import faust.transport.producer
from aiokafka.producer.transaction_manager import TransactionManager, TransactionState
from faust.topics import Topic
from faust.types import tuples
from mode.utils.futures import StampedeWrapper

from snapkafka.protocol import SendOutcome, TopicPartition

from ...aio_client import AioClient, is_from
from ...patches import after, contained
from ...sends import ABORTED, RECORDING, Transaction, Unacknowledged, Waiting, not_committed
from ..describe import in_transactions

if TYPE_CHECKING:
    from ..driver import FaustDriver

#: Faust logs each record here.
_faust_log: Final = logging.getLogger("faust.topics")
#: The size of a key or a value, also of one that is no bytes.
_size_of: Final[Any] = getattr(tuples, "_get_len", None)
#: The next producer with its transactional id aborts it.
LEFT_OPEN: Final = Unacknowledged(SendOutcome.ABORTED, "its transaction was left open")
#: Where a message in the buffer has its effect.
EFFECT: Final = "_snapkafka_effect"


class OutgoingRecords:
    """The sending side of one app's producer: each aiokafka producer that it makes stamps, and what its buffer is given
    enters."""

    def __init__(self, driver: FaustDriver, producer: Any) -> None:
        self._driver, self._machine, self._sends = driver, driver.machine, driver.sends
        self._producer = producer
        self._open: dict[str, Transaction] = {}  # by transactional id
        self._client: AioClient | None = None
        buffer = producer.buffer
        self._put, self._send_buffered = buffer.put, buffer._send_pending
        #: So many messages are in the buffer, or on their way out of it; while there are any, no other may pass.
        self._waiting = buffer.pending.qsize()
        self._outside = copy_context()  # as Faust's task, what it calls back is in no event
        self._listeners: Any = getattr(producer._send_on_produce_message, "__self__", None)
        self._passes = (
            not in_transactions(driver.app)
            and producer.allow_headers
            and all(is_from(it, faust.transport.producer) for it in (buffer.put, buffer._send_pending))
            and is_from(producer.send, transport)
            and all(is_from(it, faust.topics) for it in (Topic.publish_message, Topic._on_published))
        )
        buffer.put, buffer._send_pending = self.put, self.send_buffered
        after(driver, producer, "_new_producer", self._watch, "to stamp what is sent")
        if producer._producer is not None:
            self._watch(producer._producer)

    def _watch(self, made: Any, transactional_id: str | None = None) -> None:
        if transactional_id is None:
            self._client = AioClient(made, self._sends)
            return
        if transactional_id in self._open:
            self._open[transactional_id].ended(LEFT_OPEN)
        manager = made._txn_manager
        manager.__class__ = WatchedTransactions
        manager._driver, manager.sent = self._driver, Transaction(self._sends)
        self._open[transactional_id] = manager.sent
        AioClient(made, self._sends, manager.sent)

    def on_rebalanced(self, consumer: Any) -> None:
        """Fail the open transactions of partitions that are assigned to others after a rebalance: they are never
        committed, though Faust may keep the producer."""
        ours = consumer.transactions._tps_to_transactional_ids(consumer.assignment()) if self._open else ()
        for name in self._open.keys() - ours:
            self._open[name].ended(LEFT_OPEN)

    def client(self) -> AioClient | None:
        """Return aiokafka's producer, while there is one."""
        return None if self._producer._producer is None else self._client

    # -- the buffer ---------------------------------------------------------------------------------------------------

    def put(self, fut: Any) -> None:
        """Replace `ProducerBuffer.put`: the colour of a table write or `send_soon` is that of the event that calls it.
        What may pass the buffer is sent at once: Faust would send it as it is, and notify nobody but its sensors."""
        future = None
        try:
            message, client, loop, listeners = fut.message, self._client, self._driver.loop, self._listeners
            channel, headers, at = message.channel, message.headers, message.timestamp
            if (
                self._passes
                and not self._waiting
                and self._machine.process is not None
                and client is not None
                and client.producer is self._producer._producer
                and (loop is None or asyncio._get_running_loop() is loop)
                and message.partition is not None
                and type(channel) is Topic
                and not channel.pattern
                and len(channel.topics) == 1
                and not listeners._receivers
                and not (listeners._filter_receivers and any(listeners._filter_receivers.values()))
            ):
                future, _ = client.append_now(
                    channel.topics[0],
                    message.value,
                    message.key,
                    message.partition,
                    int(at * 1000.0) if at else at,
                    list(headers.items()) if headers and hasattr(headers, "items") else headers,
                )
            if future is None:
                self._waiting += 1
                setattr(fut, EFFECT, self._sends.enter())
            else:  # notify the objects that Faust notifies when it takes a message out of its buffer
                producer, topic, key, value = self._producer, channel.topics[0], message.key, message.value
                text = "send: topic=%r k=%r v=%r timestamp=%r partition=%r"  # as Faust does
                _faust_log.debug(text, topic, key, value, at, message.partition)
                try:
                    state = producer.app.sensors.on_send_initiated(
                        producer, topic, message=message, keysize=_size_of(key), valsize=_size_of(value)
                    )
                except Exception as error:  # in Faust's task it would end the worker
                    self._driver.spawn(producer.buffer.crash(error))
                else:
                    published = partial(channel._on_published, message=fut, state=state, producer=producer)
                    future.add_done_callback(published, context=self._outside)
        except Exception as error:
            self._driver.stand_down(RECORDING, error)
            if future is not None:
                future.add_done_callback(partial(_resolve, fut))
        if future is None:
            self._put(fut)

    async def send_buffered(self, fut: Any) -> None:
        """Replace `ProducerBuffer._send_pending`: the message has entered."""
        effect = self._driver.note(RECORDING, getattr, fut, EFFECT, None)
        with self._sends.entered(effect) as waiting:
            try:
                await self._send_buffered(fut)
            except Exception as error:
                self._refused(fut, waiting, error)
                raise
            finally:
                self._waiting -= 1

    @contained("to record a refused send")
    def _refused(self, fut: Any, waiting: Waiting, error: Exception) -> None:
        """Note a message that was not appended: its table has the write, and its changelog never will."""
        effect, waiting.effect = waiting.effect, None
        if effect is not None and not self._driver.absent:
            message = fut.message
            tp = TopicPartition(message.channel.get_topic_name(), message.partition or 0)
            refused = self._machine.settled(effect, tp, None, SendOutcome.REFUSED, reason=repr(error))
            self._driver.do(refused)
            self._driver.do(self._machine.send_appended(effect))  # nothing waits for it to leave any more


def _resolve(fut: Any, sent: Any) -> None:
    """Give the app its result where a fault of ours was met after the record was sent."""
    if not fut.done():
        fut.set_result(sent.result()) if sent.exception() is None else fut.set_exception(sent.exception())


def skip_producer_guard(driver: FaustDriver) -> None:
    """Replace `app.maybe_start_producer`, unless it is not Faust's own.

    For each record, `topic.send` and `event.forward` ask it for the producer. Faust guards that call against many
    concurrent starts, and the guard yields to the event loop three times. Once it has started there is nothing to
    guard: one yield is enough, so that a task that only sends does not starve others.
    """
    app: Any = driver.app
    guard: Any = app.maybe_start_producer
    own = type(guard) is StampedeWrapper and is_from(guard.fun, faust.app.base)
    if in_transactions(app) or not own:
        return

    async def at_hand() -> Any:
        try:
            await asyncio.sleep(0)
            made = app.producer
            if made._started.is_set():
                return made
        except Exception as error:
            driver.stand_down("to give the producer", error)
        return await guard()

    app.maybe_start_producer = at_hand


class WatchedTransactions(TransactionManager):
    """Aiokafka's state of the transactions of one producer. Faust has one per transactional id.

    Sends in them are acknowledged when their transaction is committed. Faust keeps one open per number of a destination
    partition, and commits it with positions of inputs whenever it commits. We wait for that and commit nothing
    ourselves: without positions, work that Faust would have undone would run again. Until then no cut for which its
    sends are white is reported (R7). If a transaction is aborted, or left open by a producer that stops, its sends have
    failed; if the outcome of a commit is unknown, so is theirs.

    Attributes:
        sent: what was sent in the open one.
    """

    _driver: FaustDriver
    sent: Transaction

    def add_offsets_to_txn(self, offsets: Any, group_id: str) -> Any:
        """Commit positions in the open one."""
        noted = self._driver.note("to keep metadata", self._driver.restored.commit_note, offsets)
        return super().add_offsets_to_txn(offsets if noted is None else noted, group_id)

    def complete_transaction(self) -> None:
        """End the open one: the broker has committed or aborted it."""
        failure = ABORTED if self.state is TransactionState.ABORTING_TRANSACTION else None
        super().complete_transaction()
        self._driver.note(RECORDING, self.sent.ended, failure)

    def fatal_error(self, exc: BaseException) -> None:
        """End the open one: this producer is of no use any more."""
        super().fatal_error(exc)
        self._driver.note(RECORDING, lambda: self.sent.ended(not_committed(exc)))
