"""The fast path: a record that need not wait is stamped and appended to aiokafka's batch in one step.

`FastPath.allows` is the one gate, asked for each record. `FastPath.on` is the one switch: it is off where Faust or
aiokafka is another release, and where the app sends in transactions. What the gate refuses takes the slow path
(`slow_path`): there a record may wait, and Faust raises the errors that it raises without us.

The fast path replaces three parts of Faust, each of which costs more than a stamp (docs/evidence/performance.md):

* `append`. `Producer.send` of Faust and `AIOKafkaProducer.send` are four coroutines. For every record they check
  whether a sensor is interested, whether the topic is known and whether the partition exists, and then put it into the
  batch of that partition. Where none of this has to wait, and nothing fails, `append` does the same in one step.
* `put_at_once`. Code that writes to a table cannot wait, so Faust puts the record into a queue, and a background task
  sends one after the other, by five coroutines. Where no wait is needed, a record leaves where it is put, and no
  effect has to be carried (`carried_effect`). No record overtakes one that waits in the buffer. The same objects are
  notified of a record and its outcome as without us.
* `skip_producer_guard`. For each record, `topic.send` and `event.forward` ask `app.maybe_start_producer` for the
  producer. Faust guards that call against many concurrent starts, and the guard yields to the event loop three times.
  Once the producer has started there is nothing to guard: one yield is enough, so that a task that only sends does not
  starve others.

Each compares the sources that it replaces with the known ones, by checksum: others may do more, or something else (a
tracer that wraps `send`, a later release), and are not replaced. The parts of aiokafka's producer are compared whenever
Faust has created one; a wrapper that is put around it later is not seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiokafka.producer.message_accumulator import MessageBatch
from faust.topics import Topic
from faust.types import tuples

from snapkafka.protocol.colours import Effect
from snapkafka.wire import headers as wire

from ..describe import in_transactions
from ..support import checksum
from .carried_effect import keep_partition, split
from .partition import Partitions, PartitionState, Run

if TYPE_CHECKING:
    from ...host import Host
    from ...stamps import Stamps
    from ..inbound.running_events import Events
    from .settle import SendOutcomes
    from .unstamped import UnstampedRecords

StandDown = Callable[[str, Exception], None]
Headers = Sequence[tuple[str, bytes]]

#: Checksums of the sources of what is replaced: of Faust's `send`, its buffer and topics, the guard of its producer,
#: and of aiokafka.
OF_SEND: Final = {0x2E5C24CC: "0.15.3 on mode-streaming 0.7.1"}
OF_BUFFER: Final = {0x50B7DBA0: "0.15.3"}
OF_GUARD: Final = {0xAD7E46F1: "0.15.3 on mode-streaming 0.7.1"}
OF_AIOKAFKA: Final = {0x2BA61C46: "0.13.0", 0xDD5C5FC1: "0.14.0"}

#: The size of a record with no header but ours, besides key and value, is far less, in bytes. aiokafka computes it for
#: each record, and encodes all headers for that.
SURELY_LESS: Final = 1_024
_LONGEST_HEADER: Final = (wire.HEADER, bytes(wire.CAUSED_BYTES))

#: aiokafka logs each record here; and it is made to, because Faust's worker sets the root logger to DEBUG, for its
#: spinner, unless it logs warnings only.
_aiokafka_log: Final = logging.getLogger("aiokafka.producer.producer")
#: The size of a key or a value, also of one that is no bytes.
size_of: Final[Any] = getattr(tuples, "_get_len", None)

#: Faust logs each record here.
_faust_log: Final = logging.getLogger("faust.topics")

#: The methods of Faust's topics that are replaced, or called with a message on the fast path.
TOPIC_METHODS: Final = (
    "publish_message",
    "_on_published",
    "_topic_name_or_default",
    "get_topic_name",
    "_get_producer",
)


class FastPath:
    """The fast path of one app's producer.

    Args:
        host: whose machine gives colours and seqs.
        producer: Faust's, whose `send` and `buffer.put` are still its own.
        stamps, events: the parts of the driver that are asked for each record.
        partitions, unstamped, settling: the parts of the way out that it shares with the slow path.
    """

    def __init__(
        self,
        host: Host,
        producer: Any,
        *,
        stamps: Stamps,
        events: Events,
        partitions: Partitions,
        unstamped: UnstampedRecords,
        settling: SendOutcomes,
    ) -> None:
        self._host, self._machine, self._producer = host, host.machine, producer
        self._stamps, self._events = stamps, events
        self._partitions, self._unstamped, self._settling = partitions, unstamped, settling
        callback = getattr(producer, "_send_on_produce_message", None)
        self._listeners: Any = getattr(callback, "__self__", None)
        self._known = not in_transactions(host.app) and checksum(_of_send(producer)) in OF_SEND
        self.on = False  # may records take the fast path?
        self._client: Any = None  # aiokafka's producer for which that was decided
        self._accumulator: Any
        self._cluster: Any
        self._surely_fits: int
        self._outside = copy_context()  # as Faust's task, what it calls back is in no event
        #: So many messages are in the buffer, or in flight out of it; while there are any, no other may leave.
        self.in_buffer = 1
        self._put: Callable[[Any], None] = producer.buffer.put
        if self._known:  # without a look-up of the app's settings each time
            self._put = producer.buffer.pending.put_nowait
        if checksum(_of_buffer(producer)) in OF_BUFFER:
            self.in_buffer = producer.buffer.pending.qsize()
            self._count_what_leaves(producer.buffer)

    # -- the switch -----------------------------------------------------------------------------------------------

    def _switch(self) -> None:
        """Decide whether records may take the fast path, when Faust has created another aiokafka producer."""
        self._client = client = self._producer._producer
        self.on = client is not None and self._suits(client)

    def _suits(self, client: Any) -> bool:
        """Return whether aiokafka's producer is one that this was written for; keep what the gate needs of it."""
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

    # -- the gate -------------------------------------------------------------------------------------------------

    def allows(self, way: PartitionState, key: bytes | None, value: bytes | None, others: Headers) -> bool:
        """Return whether a record may take the fast path: it waits for nothing, Faust notifies nobody of it, and it can
        be sent.

        Args:
            way: the state of sending to its partition.
            others: its headers, without ours.
        """
        if self._known and self._producer._producer is not self._client:
            self._switch()
        if not self.on or self._machine.process is None or way.waiting or way.due:
            return False
        listeners = self._listeners
        if listeners._receivers or (
            listeners._filter_receivers and any(listeners._filter_receivers.values())
        ):
            return False
        partitions = self._cluster._partitions.get(way.tp.topic)
        if partitions is None or way.tp.partition not in partitions:
            return False
        accumulator = self._accumulator
        if accumulator._closed or accumulator._exception is not None or (key is None and value is None):
            return False
        if self._unstamped.refused and self._unstamped.expected(way.tp.topic, key, value, others):
            return False
        try:
            if others or len(key or b"") + len(value or b"") > self._surely_fits:
                self._client._serialize(key, value, [*others, _LONGEST_HEADER])  # raises if it is too large
        except Exception:  # Faust raises this error to its sender
            return False
        return True

    def partition(self, topic: str, key: bytes | None) -> int | None:
        """Return the partition for a key, chosen by the app's own partitioner; None: ask Faust, which may have to
        wait."""
        if self._known and self._producer._producer is not self._client:
            self._switch()
        if not self.on or topic not in self._cluster._partitions:
            return None
        try:
            partition: int = self._client._partition(topic, None, None, None, key, None)
        except Exception:  # of the app's partitioner: Faust raises it to the sender
            return None
        return partition

    # -- stamp and append -----------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        entered: Effect | None,
        others: Headers,
        key: bytes | None,
        value: bytes | None,
        timestamp: float | None,
    ) -> asyncio.Future[Any] | None:
        """Stamp and append a record in one step.

        Args:
            entered: its effect, if it has entered before.
            others: its headers, without ours.
            timestamp: in seconds; None: aiokafka sets it.

        Returns:
            what `send` would have returned; None: nothing was done, the record takes the slow path.
        """
        machine = self._machine
        try:
            # This comes first: it may start what has waited, and that ask for markers.
            cause = self._events.cause_of_send() if entered is None else None
            way = self._partitions[topic, partition]
            if not self.allows(way, key, value, others):
                return None
            if entered is None:
                effect, seq = machine.send_at_once(cause, way.tp)
            elif entered.sent is machine.colours.sent:
                effect, seq = entered, machine.send_stamped(entered, way.tp)
            else:
                return None
            headers = [*others, (wire.HEADER, self._stamps.of(way.check, effect, seq))]
        except Exception as error:
            self._host.stand_down("to stamp a record", error)
            return None
        batches = self._accumulator
        future: asyncio.Future[Any] | None
        try:
            waiting = batches._batches.get(way.theirs)
            batch = waiting[-1] if waiting else batches._append_batch(batches.create_builder(), way.theirs)
            at_ms = int(timestamp * 1000.0) if timestamp else timestamp
            future = batch.append(key, value, at_ms, headers=headers)
        except Exception:  # of the record itself: Faust raises it to its sender
            future = None
        if future is None:  # or the batch is full
            undo = machine.send_undone if entered is None else machine.send_unstamped
            undo(effect, way.tp, seq)
            return None
        _aiokafka_log.debug("Sending (key=%s value=%s) to %s", key, value, way.theirs)
        try:  # it is in flight: what goes wrong now must not make its caller send it again
            if batch is not way.batch:  # the records of a batch are acknowledged, and counted, together
                way.batch, way.runs = batch, []
                batch.future.add_done_callback(partial(self._settling.batch_settled, way, batch, way.runs))
            run = way.runs[-1] if way.runs else None
            if run is not None and run.effect.tally is effect.tally and run.first + run.count == seq:
                run.count += 1
            else:
                way.runs.append(Run(effect, seq, batch.record_count - 1))
            if entered is not None and (actions := machine.send_appended(effect)):
                self._host.do(actions)
        except Exception as error:
            self._host.stand_down("to record that a record is sent", error)
        return future

    # -- past Faust's buffer --------------------------------------------------------------------------------------

    def put_at_once(self, fut: Any) -> bool:
        """Send a message that is put into Faust's buffer; False: nothing has happened yet.

        The objects that Faust notifies when it takes a message out of its buffer are notified, and Faust handles the
        outcome.
        """
        message, channel = fut.message, fut.message.channel
        if self.in_buffer or self._machine.process is None or not self._host.runs_here():
            return False
        if type(channel) is not Topic or channel.pattern or len(channel.topics) != 1:
            return False
        topic, key, value = channel.topics[0], message.key, message.value
        partition = self.partition(topic, key) if message.partition is None else message.partition
        if partition is None:
            return False
        others = split(message.headers)[1] if message.headers else ()
        future = self.append(topic, partition, None, others, key, value, message.timestamp)
        if future is None:
            if message.partition is None:
                keep_partition(fut, partition)
            return False
        try:
            producer = self._producer
            _faust_log.debug(
                "send: topic=%r k=%r v=%r timestamp=%r partition=%r",
                *(topic, key, value, message.timestamp, message.partition),
            )
            try:
                state = producer.app.sensors.on_send_initiated(
                    producer, topic, message=message, keysize=size_of(key), valsize=size_of(value)
                )
            except Exception as error:  # in Faust's task it would end the worker
                self._host.spawn(producer.buffer.crash(error))
                return True
            published = partial(channel._on_published, message=fut, state=state, producer=producer)
            future.add_done_callback(published, context=self._outside)
        except Exception as error:
            self._host.stand_down("to report a record that is sent", error)
        return True

    def put(self, fut: Any) -> None:
        """Put a message into Faust's buffer: the slow path."""
        self.in_buffer += 1
        self._put(fut)

    def _count_what_leaves(self, buffer: Any) -> None:
        send_pending = buffer._send_pending

        async def send_counted(fut: Any) -> None:
            try:
                await send_pending(fut)
            finally:
                try:
                    self.in_buffer -= 1
                except Exception as error:
                    self._host.stand_down("to count what leaves Faust's buffer", error)

        buffer._send_pending = send_counted


def _of_send(producer: Any) -> list[Any]:
    """List the parts of Faust's producer that `append` replaces."""
    callback = getattr(producer, "_send_on_produce_message", None)
    return [
        producer.send,
        producer.buffer.put,
        getattr(producer, "key_partition", None),
        getattr(getattr(callback, "__self__", None), "iter_receivers", None),
    ]


def _of_buffer(producer: Any) -> list[Any]:
    """List the parts of Faust that `put_at_once` replaces, and those that handle a message on the fast path."""
    buffer = producer.buffer
    return [
        buffer.put,
        getattr(buffer, "_send_pending", None),
        getattr(getattr(type(buffer), "_handle_pending", None), "fun", None),
        *(getattr(Topic, name, None) for name in TOPIC_METHODS),
        size_of,
    ]


def _of_aiokafka(client: Any) -> list[Any]:
    """List the parts of aiokafka that `append` replaces, calls or reads the results of, as this producer has them."""
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
