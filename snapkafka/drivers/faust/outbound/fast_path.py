"""The fast path: a record that need not wait is appended to aiokafka's batch in one step.

It replaces three parts of Faust, each of which saves more than a stamp costs (docs/evidence/performance.md):

* `Batches`. `Producer.send` of Faust and `AIOKafkaProducer.send` are four coroutines. For every record they check
  whether a sensor is interested, whether the topic is known and whether the partition exists, and then put it into the
  batch of that partition. Where none of this has to wait, and nothing fails, `Batches.add` does the same in one step.
* `BufferBypass`. Code that writes to a table cannot wait, so Faust puts the record into a queue, and a background task
  sends one after the other, by five coroutines. Where no wait is needed, a record leaves where it is put, and no
  effect has to be carried (`carried_effect`). No record overtakes one that waits in the buffer. The same objects are
  notified of a record and its outcome as without us.
* `skip_producer_guard`. For each record, `topic.send` and `event.forward` ask `app.maybe_start_producer` for the
  producer. Faust guards that call against many concurrent starts, and the guard yields to the event loop three times.
  Once the producer has started there is nothing to guard: one yield is enough, so that a task that only sends does not
  starve others.

Each compares the sources that it replaces with the known ones, by checksum: others may do more, or something else (a
tracer that wraps `send`, a later release), and are not replaced. Then, and where it would have to wait or to raise an
error, a record takes the slow path, as it would without us. The parts of aiokafka's producer are compared whenever
Faust has created one; a wrapper that is put around it later is not seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiokafka.producer.message_accumulator import MessageBatch
from faust.topics import Topic
from faust.types import tuples

from ..describe import in_transactions
from ..support import checksum

if TYPE_CHECKING:
    from ..host import Host

StandDown = Callable[[str, Exception], None]

#: Checksums of the sources of what is stood in for: of Faust's `send`, its buffer and topics, the guard of its
#: producer, and of aiokafka.
OF_SEND: Final = {0x2E5C24CC: "0.15.3 on mode-streaming 0.7.1"}
OF_BUFFER: Final = {0x50B7DBA0: "0.15.3"}
OF_GUARD: Final = {0xAD7E46F1: "0.15.3 on mode-streaming 0.7.1"}
OF_AIOKAFKA: Final = {0x2BA61C46: "0.13.0", 0xDD5C5FC1: "0.14.0"}

#: What a record with no header but ours takes besides key and value is far less, in bytes. aiokafka works it out for
#: each, and encodes all headers for it.
SURELY_LESS: Final = 1_024

#: aiokafka tells of each record here; and it is made to, for Faust's worker sets the root logger to DEBUG, for its
#: spinner, unless it is told to log more than warnings.
_aiokafka_log: Final = logging.getLogger("aiokafka.producer.producer")
#: Of a key or a value, also of one that is no bytes.
size_of: Final[Any] = getattr(tuples, "_get_len", None)

#: Faust tells of each record here.
_faust_log: Final = logging.getLogger("faust.topics")

#: What of Faust's topics is stood in for, or done with a message that passes.
TOPIC_METHODS: Final = (
    "publish_message",
    "_on_published",
    "_topic_name_or_default",
    "get_topic_name",
    "_get_producer",
)


class Batches:
    """The batches of one app's producer.

    Args:
        producer: Faust's, whose `send` and `buffer.put` are still its own.
    """

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        callback = getattr(producer, "_send_on_produce_message", None)
        self._listeners: Any = getattr(callback, "__self__", None)
        stood_in_for = [
            producer.send,
            producer.buffer.put,
            getattr(producer, "key_partition", None),
            getattr(self._listeners, "iter_receivers", None),
        ]
        self._known = checksum(stood_in_for) in OF_SEND
        self._client: Any = None  # aiokafka's producer that was looked at last
        self._open = False  # may what it gets go the short way?
        self._accumulator: Any
        self._cluster: Any
        self._surely_fits: int

    @property
    def put(self) -> Callable[[Any], None]:
        """Return `ProducerBuffer.put`, without a look-up of the app's settings each time whether there is a second
        producer."""
        buffer = self._producer.buffer
        put: Callable[[Any], None] = buffer.put
        return buffer.pending.put_nowait if self._known and self._producer.threaded_producer is None else put

    def _look(self) -> bool:
        """Return whether records may take the fast path; asked again when Faust has replaced its aiokafka producer."""
        self._client = client = self._producer._producer
        self._open = client is not None and self._suits(client)
        return self._open

    def partition(self, topic: str, key: bytes | None) -> int | None:
        """Return the partition for a key, chosen by the app's own partitioner; None: ask Faust, which may have to
        wait."""
        if not self._known or (self._producer._producer is not self._client and not self._look()):
            return None
        if not self._open or topic not in self._cluster._partitions:
            return None
        try:
            partition: int = self._client._partition(topic, None, None, None, key, None)
        except Exception:  # of the app's partitioner: Faust will say so
            return None
        return partition

    def add(
        self, tp: Any, key: bytes | None, value: bytes | None, timestamp: float | None, headers: Any
    ) -> tuple[Any, asyncio.Future[Any]] | None:
        """Put a record into the batch of its partition without waiting.

        Args:
            tp: of aiokafka's own type.
            timestamp: in seconds; None: aiokafka sets it.
            headers: a list of pairs.

        Returns:
            the batch, and what `send` would have returned; None: nothing was done, the record takes the slow path.
        """
        if not self._known or (self._producer._producer is not self._client and not self._look()):
            return None
        if not self._open or (key is None and value is None):
            return None
        listeners = self._listeners
        if listeners._receivers or (
            listeners._filter_receivers and any(listeners._filter_receivers.values())
        ):
            return None  # somebody is to be told of every record
        partitions = self._cluster._partitions.get(tp.topic)
        if partitions is None or tp.partition not in partitions:
            return None
        accumulator = self._accumulator
        if accumulator._closed or accumulator._exception is not None:
            return None
        try:
            if len(headers) > 1 or len(key or b"") + len(value or b"") > self._surely_fits:
                self._client._serialize(key, value, headers)  # without serializers: the limit of size
            waiting = accumulator._batches.get(tp)
            batch = waiting[-1] if waiting else accumulator._append_batch(accumulator.create_builder(), tp)
            future = batch.append(
                key, value, int(timestamp * 1000.0) if timestamp else timestamp, headers=headers
            )
        except Exception:  # if it cannot be sent at all, Faust will say so
            return None
        if future is None:
            return None  # it is full
        _aiokafka_log.debug("Sending (key=%s value=%s) to %s", key, value, tp)
        return batch, future

    def _suits(self, client: Any) -> bool:
        """Return whether aiokafka's producer is the one that this was written for; if so, keep what `add` needs of
        it."""
        try:
            self._accumulator, self._cluster = client._message_accumulator, client._metadata
            self._surely_fits = client._max_request_size - SURELY_LESS
            return (
                checksum(_of_aiokafka(client)) in OF_AIOKAFKA
                and self._producer.allow_headers
                and client._key_serializer is None
                and client._value_serializer is None
                and client._txn_manager is None
            )
        except AttributeError:
            return False


def _of_aiokafka(client: Any) -> list[Any]:
    """List the parts of aiokafka that `Batches` replaces, calls or reads the results of, as this producer has them."""
    accumulator = client._message_accumulator
    return [
        client.send,
        client._serialize,
        client._partition,
        client.client._wait_on_metadata,
        client._metadata.partitions_for_topic,
        accumulator.add_message,
        accumulator.create_builder,
        accumulator._append_batch,
        MessageBatch.__init__,
        MessageBatch.append,
        MessageBatch.done,
        MessageBatch.done_noack,
        MessageBatch.failure,
    ]


class BufferBypass:
    """The fast path past the buffer of one app's producer.

    Args:
        host: logs what fails in a background task.
        producer: Faust's.
        put: puts a message into its buffer.
    """

    def __init__(self, host: Host, producer: Any, put: Callable[[Any], None]) -> None:
        self._host, self._producer, self._put = host, producer, put
        self._outside = copy_context()  # as Faust's task, what it calls back is in no event
        #: So many messages are in the buffer, or on their way out of it; while there are any, nothing may pass.
        self.waiting = 1
        if producer.threaded_producer is None and checksum(_of_buffer(producer)) in OF_BUFFER:
            self.waiting = producer.buffer.pending.qsize()
            self._count_what_leaves(producer.buffer)

    def _count_what_leaves(self, buffer: Any) -> None:
        send_pending = buffer._send_pending

        async def send_counted(fut: Any) -> None:
            try:
                await send_pending(fut)
            finally:
                try:
                    self.waiting -= 1
                except Exception as error:
                    self._host.stand_down("to count what leaves Faust's buffer", error)

        buffer._send_pending = send_counted

    def put(self, fut: Any) -> None:
        """Take the slow path: into the buffer."""
        self.waiting += 1
        self._put(fut)

    @staticmethod
    def topic_of(message: Any) -> str | None:
        """Return the topic of a message; None: it must not take the fast path."""
        channel = message.channel
        if type(channel) is not Topic or channel.pattern or len(channel.topics) != 1:
            return None
        topic: str = channel.topics[0]
        return topic

    def passed(self, fut: Any, topic: str, future: asyncio.Future[Any]) -> None:
        """Finish a message that is appended: notify the objects that Faust notifies when it takes a message out of its
        buffer, and let Faust handle the outcome."""
        message, producer = fut.message, self._producer
        key, value = message.key, message.value
        _faust_log.debug(
            "send: topic=%r k=%r v=%r timestamp=%r partition=%r",
            topic,
            key,
            value,
            message.timestamp,
            message.partition,
        )
        try:
            state = producer.app.sensors.on_send_initiated(
                producer, topic, message=message, keysize=size_of(key), valsize=size_of(value)
            )
        except Exception as error:  # a sensor of the app's: Faust's task would fail, and with it the worker
            self._host.spawn(producer.buffer.crash(error))
            return
        future.add_done_callback(
            partial(message.channel._on_published, message=fut, state=state, producer=producer),
            context=self._outside,
        )


def _of_buffer(producer: Any) -> list[Any]:
    """List the parts of Faust that `BufferBypass` replaces, and those that handle a message on the fast path."""
    buffer = producer.buffer
    return [
        buffer.put,
        getattr(buffer, "_send_pending", None),
        getattr(getattr(type(buffer), "_handle_pending", None), "fun", None),
        *(getattr(Topic, name, None) for name in TOPIC_METHODS),
        size_of,
    ]


def skip_producer_guard(app: Any, producer: Any, stand_down: StandDown = lambda what, error: None) -> None:
    """Replace `app.maybe_start_producer` by a function that returns this producer.

    Args:
        stand_down: is called with a fault of ours.
    """
    guard: Any = getattr(app, "maybe_start_producer", None)
    stood_in_for = [
        getattr(type(guard), "__call__", None),  # noqa: B004
        getattr(guard, "fun", None),
        getattr(producer, "maybe_start", None),
    ]
    if in_transactions(app) or checksum(stood_in_for) not in OF_GUARD:
        return

    async def at_hand() -> Any:
        try:
            await asyncio.sleep(0)
            made = app.producer
            if made._started.is_set():
                return made
        except Exception as error:
            stand_down("to give the producer", error)
        return await guard()

    app.maybe_start_producer = at_hand
