"""Bulk transfer: many records, read and appended in order by librdkafka; the messages of exact offset ranges.

A consumer without a group reads committed records of exact ranges; idempotent producers append, outside any
transaction: an at-least-once changelog that ends with a control record hangs Faust's recovery for ever.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    LedgerUnusableError,
    MechanismError,
    OffsetsGoneError,
    TimedOutError,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.runtime.extras import require_extra

from .read import KafkaRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Messages taken from the client at once; and the wait for as many, which each range meets once, at its end.
BATCH, BATCH_WAIT_S = 1_000, 0.02
#: Nothing has come of a range by then: it is given up.
IDLE_S: Final = 30.0
#: What a reader of ranges needs beside the address and the login. Nothing is ever committed under its group id.
READER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 20,
}


def headers_of(message: Message) -> list[tuple[str, Any]]:
    """Return the headers of a message, in order.

    Raises:
        UnicodeError: the client cannot return them; it names the record.
    """
    try:
        return list(message.headers() or ())
    except SystemError as error:
        raise UnicodeError(
            f"a header of {message.topic()}[{message.partition()}] offset {message.offset()} whose name is not UTF-8"
        ) from error


def messages_of(
    settings: Mapping[str, Any],
    ranges: Sequence[tuple[str, int, int, int]],
    refuse: Callable[[str, int, Any], None],
    *,
    before_each_batch: Callable[[], None] = lambda: None,
) -> Iterator[Message]:
    """Yield the messages of `(topic, partition, start, end)`, one range per partition, in the order of each.

    Args:
        settings: of librdkafka's consumer, with `group.id` and `isolation.level`.
        refuse: raises the error for what a partition answered; if it returns, the partition is left out.

    Raises:
        OffsetsGoneError: an offset comes again, or lies below its range: the log is another one by now.
        TimedOutError: no more messages come before the end of a range.
    """
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka import TopicPartition as KafkaPartition

    wanted = [item for item in ranges if item[2] < item[3]]
    ends = {(topic, partition): end for topic, partition, _, end in wanted}
    due = {(topic, partition): start for topic, partition, start, _ in wanted}
    if not ends:
        return
    consumer = Consumer({**READER, **settings})
    try:
        consumer.assign([KafkaPartition(topic, partition, start) for topic, partition, start, _ in wanted])
        latest = time.monotonic()
        while ends:
            before_each_batch()
            for message in (batch := consumer.consume(BATCH, BATCH_WAIT_S)):
                place, error = (message.topic(), message.partition()), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    refuse(*place, error)
                    ends.pop(place, None)
                    continue
                if place not in ends:
                    continue
                if message.offset() >= ends[place]:
                    del ends[place]
                elif error is None:
                    if message.offset() < due[place]:
                        raise OffsetsGoneError(
                            f"records were deleted while they were read: {place[0]}[{place[1]}] goes back to offset"
                            f" {message.offset()}"
                        )
                    due[place] = message.offset() + 1
                    yield message
                    if message.offset() + 1 >= ends[place]:
                        del ends[place]
            if batch:
                latest = time.monotonic()  # not before the batch was taken: its taker may be slow
            elif time.monotonic() - latest > IDLE_S:
                names = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(ends))
                raise TimedOutError(
                    f"no record came of {names} for {IDLE_S:g} s",
                    hint="check that the partition has a leader",
                )
    finally:
        consumer.close()


#: Records that the producer holds at most; more wait for the broker.
QUEUED_MAX: Final = 50_000
#: Reports of the broker are taken after so many records.
POLL_EVERY: Final = 500
#: What has been given to the broker is acknowledged by then, or the attempt is void.
FLUSH_S: Final = 120.0
#: A record that waits longer in the client is not sent any more: less than a hold of a group lasts (`group_hold`), so a
#: run that was suspended until its hold had passed on sends nothing of what it still had in hand.
SENT_WITHIN_S: Final = 25.0
#: Kafka's own bound of a record is its topic's; the client shall not be the one to refuse.
RECORD_BYTES_MAX: Final = 1_000_000_000
#: A producer that keeps the order, and appends nothing twice.
PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "queue.buffering.max.messages": QUEUED_MAX,
    "message.max.bytes": RECORD_BYTES_MAX,
    "message.timeout.ms": int(SENT_WITHIN_S * 1_000),
    # A deleted changelog would come back with `cleanup.policy=delete`; a new topic may be unknown for a moment.
    "allow.auto.create.topics": False,
    "topic.metadata.propagation.max.ms": 10_000,
}
#: A batch is no larger, unless it is one record; of up to 500 bytes more librdkafka takes no account.
BATCH_BYTES: Final = 1_000_000


def batch_bytes(topics: Iterable[Mapping[str, str]]) -> int:
    """Find the batches that topics of these settings take: a broker refuses a larger one, however small its records."""
    limits = [int(it["max.message.bytes"]) - 500 for it in topics if "max.message.bytes" in it]
    return max(1, min([BATCH_BYTES, *limits]))


def client_settings(connection: Connection) -> dict[str, Any]:
    """Translate a connection to librdkafka's settings."""
    where = {"bootstrap.servers": ",".join(connection.hosts), "log_level": 0}
    return where | connection.settings.for_librdkafka()


class KafkaBulk:
    """A reader and writer of many records. Every call blocks, and ends soon after `stop` is set.

    Args:
        connection: the cluster.

    Raises:
        DependencyMissingError: confluent-kafka is not installed.
        MechanismError: it refuses the settings; that of PyPI was built without GSSAPI.
    """

    def __init__(self, connection: Connection) -> None:
        require_extra("restore", "a restore")
        self.connection = connection
        self.stop, self.batch_bytes = threading.Event(), BATCH_BYTES
        self._settings = client_settings(connection)
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient(dict(self._settings))
        except KafkaException as error:
            raise MechanismError(
                f"the installed confluent-kafka refuses these settings: {error.args[0].str()}",
                hint="for GSSAPI `pip install --no-binary confluent-kafka confluent-kafka`, where librdkafka was"
                " built with libsasl2",
            ) from error

    def read(self, ranges: Sequence[tuple[str, int, int, int]]) -> Iterator[KafkaRecord]:
        """Read committed records of `(topic, partition, start, end)`, in the order of each partition.

        Raises:
            TimedOutError: no more records come before the end of a range.
            LedgerUnusableError: reading a topic is unauthorized, or an offset is deleted.
        """
        settings = self._settings | {"group.id": "snapkafka-restore", "isolation.level": "read_committed"}
        for message in messages_of(settings, ranges, _refuse, before_each_batch=self._raise_if_stopped):
            yield _record(message)

    def append(self, records: Iterable[Any]) -> dict[TopicPartition, Sequence[int]]:
        """Append records, of any offset, in this order per partition; return when every one is acknowledged.

        Returns: the offsets of each partition's records; sorted they are in the order of these, as one idempotent
        producer appends all.

        Raises:
            LedgerUnusableError: a record was refused, or there is no such topic.
            BrokerUnavailableError: not all were acknowledged in time.
        """
        from confluent_kafka import Producer

        failures: list[Any] = []
        offsets: defaultdict[tuple[str, int], array[int]] = defaultdict(lambda: array("q"))
        producer = Producer(self._settings | PRODUCER | {"batch.size": self.batch_bytes})

        def report(error: Any, message: Any) -> None:
            if error is not None:
                failures.append((f"append to {message.topic()}[{message.partition()}]", error))
            else:
                offsets[message.topic(), message.partition()].append(message.offset())

        def attend(wait_s: float = 0.0) -> None:
            producer.poll(wait_s)
            self._raise_if_stopped()
            if failures:
                raise _refused(*failures[0])

        for number, record in enumerate(records):
            at_ms = record.timestamp_ms
            while True:
                try:
                    producer.produce(
                        record.topic,
                        record.value,
                        record.key,
                        record.partition,
                        on_delivery=report,
                        timestamp=0 if at_ms < 0 else max(1, at_ms),  # 0: the time of the append
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    attend(0.1)
            if number % POLL_EVERY == 0:
                attend()
        deadline = time.monotonic() + FLUSH_S
        while left := producer.flush(0.2):
            attend()
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(f"{left:,} records were not acknowledged within {FLUSH_S:g} s")
        attend()
        return {TopicPartition(*place): found for place, found in offsets.items()}

    def _raise_if_stopped(self) -> None:
        if self.stop.is_set():
            raise TimedOutError("interrupted", hint="run the same command again: it continues")


def _record(message: Message) -> KafkaRecord:
    try:
        headers = tuple(headers_of(message))
    except UnicodeError as error:
        raise BadInputError(
            f"could not copy {error}", hint="delete the records up to it, or take a snapshot past it"
        ) from error
    place = (message.topic(), message.partition(), message.offset())
    return KafkaRecord._make((*place, message.key(), message.value(), headers, message.timestamp()[1]))


def _refuse(topic: str, partition: int, error: Any) -> None:
    raise _refused(f"read {topic}[{partition}]", error)


def _refused(what: str, error: Any) -> LedgerUnusableError:
    return LedgerUnusableError(
        f"could not {what}: {error.str()}", hint="check the rights and the broker's log"
    )
