"""A producer of aiokafka that stamps in its batches.

`MessageBatch.append` takes a seq and appends the record in one step without an await, and aiokafka has one batch of a
partition in flight at a time. So the order of the seqs is that of the log, also over full batches and retries.

* `StampedBatch` is each batch of the client. A record that finds it full gives its seq back; aiokafka calls again.
* `AioClient.append_now` appends at once where nothing has to be waited for. What has to wait enters first (`sends`).
* A batch that broker or topic refuse for its size is sent again without our headers, of 18 to 27 bytes besides their
  name (R15). The producer's own limit is checked before there are any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerClosed,
    RecordListTooLargeError,
)
from aiokafka.producer import message_accumulator
from aiokafka.producer import producer as aiokafka_producer
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition as TheirTopicPartition
from aiokafka.util import create_future

from snapkafka.protocol import MarkerSettled, SendMarkers, TopicPartition
from snapkafka.wire import headers as wire

from .patches import contained
from .process import Process
from .sends import RECORDING, FullError, Partition, Run, Sends, Stamp, Transaction, outcome_of

#: aiokafka logs each record here.
_log: Final = logging.getLogger("aiokafka.producer.producer")
#: The size of a record without headers, besides its key and value, is far less, in bytes.
SURELY_LESS: Final = 1_024


class StampedBatch(MessageBatch):  # type: ignore[misc]
    """A batch whose records are stamped as they are appended, and settled as it is."""

    client: AioClient
    _driver: Process
    partition: Partition
    runs: list[Run]
    _msg_futures: list[Any]

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        _create_future: Callable[[], Any] = create_future,
        headers: Sequence[tuple[str, Any]] = [],
    ) -> Any:
        """Stamp and append a record, after the markers that are due; None: there is no room."""
        stamp, client = None, self.client
        try:
            stamp = client.sends.stamp(self.partition, self, self.add_marker)
        except FullError:
            return None
        except Exception as error:
            self._driver.stand_down(RECORDING, error)
        if headers:  # those of a record that is forwarded may have one of ours
            headers = [pair for pair in headers if pair[0] != wire.HEADER]
        if stamp is not None and stamp[2] is not None:
            headers = [*headers, (wire.HEADER, stamp[2])]
        try:
            future = super().append(key, value, timestamp_ms, _create_future, headers)
        except BaseException:
            self._not_appended(stamp)
            raise
        if future is None:
            self._not_appended(stamp)
        elif stamp is not None:
            try:  # it is in flight: what goes wrong now must not make its caller send it again
                effect, seq, _, waiting = stamp
                run = self.runs[-1] if self.runs else None
                if (
                    run is None
                    or run.effect is None
                    or run.effect.tally is not effect.tally
                    or seq != (None if run.last is None else run.last + 1)
                    or run.held is (client.transaction is None)
                ):
                    self.runs.append(run := Run(self.partition.tp, effect, seq, count=0))
                    if client.transaction is not None:
                        client.transaction.hold(run)
                run.count, run.last, run.place = run.count + 1, seq, self._builder._relative_offset - 1
                if waiting is not None or seq is None:
                    client.sends.appended(self.partition, stamp)
            except Exception as error:
                self._driver.stand_down(RECORDING, error)
        return future

    @contained(RECORDING)
    def _not_appended(self, stamp: Stamp | None) -> None:
        if stamp is not None:
            self.client.sends.not_appended(self.partition, stamp)

    # -- markers ------------------------------------------------------------------------------------------------------

    def add_marker(self) -> bool:
        """Append the first marker that is due; False: there is no room."""
        sends, partition = self.client.sends, self.partition
        key, header, run = sends.marker(partition, partition.due[0])
        future = None
        try:
            future = super().append(key, None, None, headers=[(wire.HEADER, header)])
        finally:
            if future is None and run.last is not None:
                sends.host.machine.colours.sent[run.tp].unused(run.last, run.last)
        if future is None:
            return False
        partition.due.pop(0)
        partition.last = self
        run.place = self.record_count - 1
        self.runs.append(run)
        return True

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def done(self, base_offset: int, *more: Any, **named: Any) -> None:
        """Settle the records by the offset of the first."""
        super().done(base_offset, *more, **named)
        try:
            runs, self.runs = self.runs, []
            for run in runs:
                unknown = base_offset < 0
                offset, failure = (-1, outcome_of(None)) if unknown else (base_offset + run.place, None)
                self.client.sends.settled(run, offset, failure)
        except Exception as error:
            self._driver.stand_down(RECORDING, error)

    def done_noack(self) -> None:
        """Settle records of which the broker reports no offset."""
        super().done_noack()
        self._fail(None)

    def failure(self, exception: BaseException) -> None:
        """Send the records again without our headers if these are too much for the topic, or for a segment of its log;
        settle them otherwise."""
        if isinstance(exception, MessageSizeTooLargeError | RecordListTooLargeError) and self._sent_again():
            return
        self._fail(exception)
        super().failure(exception)

    @contained(RECORDING)
    def _fail(self, error: BaseException | None) -> None:
        runs, self.runs = self.runs, []
        for run in runs:
            self.client.sends.settled(run, -1, outcome_of(error))

    @contained(RECORDING)
    def _sent_again(self) -> bool | None:
        """Enqueue the batch again without our headers; False: it has none, or it is a batch of the app's own."""
        accumulator = self.client.accumulator
        if self not in accumulator._pending_batches or all(run.last is None for run in self.runs):
            return False
        found = MemoryRecords(bytes(self.get_data_buffer())).next_batch()
        records = list(found)
        if len(records) != len(self._msg_futures):
            return False
        builder: BatchBuilder = accumulator.create_builder()
        futures = []
        for record, (future, _) in zip(records, self._msg_futures, strict=True):
            headers = wire.without_header(record.headers)
            metadata = builder.append(
                timestamp=record.timestamp, key=record.key, value=record.value, headers=headers
            )
            if metadata is None:
                return False
            futures.append((future, metadata))
        builder.close()
        if found.producer_id >= 0:
            builder._set_producer_state(found.producer_id, found.producer_epoch, found.base_sequence)
        self._builder, self._msg_futures = builder, futures
        self.client.sends.unstamp(self.runs)
        accumulator.reenqueue(self)
        return True


class AioClient:
    """A producer of aiokafka whose records are stamped from now on. `transaction`: holds outcomes back, where it has
    transactions; `put`: replaces an attribute of an object."""

    def __init__(
        self,
        producer: Any,
        sends: Sends,
        transaction: Transaction | None = None,
        *,
        put: Callable[[Any, str, Any], None] = setattr,
    ) -> None:
        self.sends, self.producer, self.transaction = sends, producer, transaction
        self._driver = sends.host
        self.accumulator = producer._message_accumulator
        self._send, self._append_batch = producer.send, self.accumulator._append_batch
        self._cluster = producer._metadata
        #: Whether records may pass aiokafka's coroutines: not where something is around them, as a tracer is.
        self._direct = (
            producer._txn_manager is None
            and producer._key_serializer is None
            and producer._value_serializer is None
            and all(
                is_from(getattr(producer, name), aiokafka_producer)
                for name in ("send", "_serialize", "_partition")
            )
            and is_from(self.accumulator.add_message, message_accumulator)
        )
        self._surely_fits = producer._max_request_size - SURELY_LESS
        put(self.accumulator, "_append_batch", self._stamped_batch)
        put(producer, "send", self.send)

    def _stamped_batch(self, builder: Any, tp: Any) -> Any:
        batch = self._append_batch(builder, tp)
        try:
            if type(batch) is MessageBatch:
                batch.__class__ = StampedBatch
                batch.client, batch._driver, batch.runs = self, self._driver, []
                batch.partition = self.sends.partitions[tp.topic, tp.partition]
        except Exception as error:
            self._driver.stand_down(RECORDING, error)
        return batch

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        """Send a record; see `AIOKafkaProducer.send`. It enters here, unless it has entered."""
        waiting, future = self.sends.waiting.get(), None
        if waiting is not None and waiting.effect is not None:
            return await self._send(topic, value, key, partition, timestamp_ms, headers)
        try:
            future, partition = self.append_now(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:
            self._driver.stand_down(RECORDING, error)
        if future is not None:
            return future
        with self.sends.entered(self.sends.enter()):
            return await self._send(topic, value, key, partition, timestamp_ms, headers)

    def append_now(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp_ms: int | None, headers: Any
    ) -> tuple[Any, int | None]:
        """Append a record where that has to wait for nothing and does not fail. Return its future, None: nothing has
        happened; and its partition, if it has one: a partitioner that takes turns is asked once."""
        accumulator, producer = self.accumulator, self.producer
        partitions = self._cluster._partitions.get(topic)
        if not self._direct or accumulator._closed or accumulator._exception is not None or not partitions:
            return None, partition
        try:
            if headers or len(key or b"") + len(value or b"") > self._surely_fits:
                producer._serialize(key, value, headers or ())
            if value is None and key is None:
                return None, partition
            if partition is None:
                partition = producer._partition(topic, None, key, value, key, value)
            if partition not in partitions:
                return None, partition
            if batches := accumulator._batches.get((topic, partition)):
                batch = batches[-1]
            else:
                tp = TheirTopicPartition(topic, partition)
                batch = accumulator._append_batch(accumulator.create_builder(), tp)
            future = batch.append(key, value, timestamp_ms, headers=headers or [])
        except Exception:  # of the record itself, or of the app's partitioner: aiokafka raises it
            return None, partition
        if future is not None:
            _log.debug("Sending (key=%s value=%s) to %s", key, value, batch.tp)
        return future, partition

    def append_at_once(self, tp: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Append a record to a partition that the client knows, whatever room there is. Errors are the client's own."""
        accumulator, manager = self.accumulator, self.producer._txn_manager
        if accumulator._closed:
            raise ProducerClosed
        if accumulator._exception is not None:
            raise accumulator._exception
        if manager is not None and manager.transactional_id is not None and not manager.is_in_transaction():
            raise IllegalOperation("Can't send messages while not in transaction")
        if len(key) + len(value or b"") > self._surely_fits:
            raise MessageSizeTooLargeError(f"a change of {tp.topic} is larger than max_request_size")
        batches = accumulator._batches.get(tp)
        while not batches or batches[-1].append(key, value, None) is None:
            accumulator._append_batch(accumulator.create_builder(), TheirTopicPartition(*tp))
            batches = accumulator._batches[tp]

    async def send_marker(self, partition: Partition, upto: SendMarkers) -> None:
        """Append the markers of a partition that are still due up to this one, unless their order would be unknown."""
        accumulator, due, tp = self.accumulator, partition.due, TheirTopicPartition(*partition.tp)
        await self.producer.client._wait_on_metadata(tp.topic)
        while due and due[0].epoch <= upto.epoch:
            if accumulator._closed or accumulator._exception is not None:
                raise ProducerClosed
            last = partition.last
            if last is not None and last.client is not self and not last.future.done():
                raise KafkaError(f"another client writes to {partition.tp} at this moment")
            batches = accumulator._batches.get(tp)
            batch = batches[-1] if batches else accumulator._append_batch(accumulator.create_builder(), tp)
            if not batch.add_marker():
                await batch.wait_drain()


def is_from(function: Any, module: Any) -> bool:
    """Return whether a function is that of a module: something may be around it, or in its place."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == module.__file__


def send_markers(sends: Sends, client: Callable[[], AioClient | None], action: SendMarkers) -> None:
    """Note that each partition gets its marker before its next red record, and send it soon in any case.

    Args:
        client: returns the one that sends, when it is needed.
    """
    for tp in action.tps:
        sends.partitions[tp].due.append(action)
    sends.host.spawn(_send_markers(sends, client, action))


async def _send_markers(sends: Sends, client: Callable[[], AioClient | None], action: SendMarkers) -> None:
    for tp in action.tps:
        partition = sends.partitions[tp]
        try:
            by = client()
            if by is None or sends.host.machine.process is None or sends.host.absent:
                raise ProducerClosed
            await by.send_marker(partition, action)
        except KafkaError as error:
            while partition.due and partition.due[0].epoch <= action.epoch:
                epoch = partition.due.pop(0).epoch
                sends.host.feed(MarkerSettled(epoch=epoch, tp=tp, failure=repr(error)))
