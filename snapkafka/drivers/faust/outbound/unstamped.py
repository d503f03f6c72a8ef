"""Records that leave unstamped: without our header, because a size limit has no room for it (R15).

Producer, broker and topic each limit how large a record may be, and our header takes 18 to 27 bytes besides its name.
A record that fits without the header must arrive, so it leaves unstamped:

* The producer's own limit (`producer_max_request_size`) raises at the send. The record is sent again without a stamp.
* The limits of broker and topic (`message.max.bytes`, `max.message.bytes`, `segment.bytes`) apply to compressed
  batches, and only the broker knows their current values. So the broker decides: a batch that it refuses for its size
  is sent again in two halves, and a record that it refuses alone without our header. Both keep their place: their
  partition waits meanwhile, as in every retry of aiokafka's, so no record overtakes another, and idempotent producers
  keep their sequence. Without halves a burst would lose more than without us: what is sent while a batch waits to be
  sent again goes into the next one, up to `producer_max_batch_size`, which may exceed the topic's limit.
* Without compression, a record as large as one that was refused leaves unstamped at once, for a while.

docs/explanation/design-notes.md explains what an unstamped record means to snapshots: those that are open when it
leaves fail by name, and its sender reports in the ledger up to which offset a partition holds unstamped records of its
own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch
from aiokafka.producer.sender import Sender, SendProduceReqHandler
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from faust.exceptions import ProducerSendError

from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ..support import checksum

if TYPE_CHECKING:
    from ...host import Host
    from ...stamps import Stamps

logger = logging.getLogger("snapkafka")

#: The source of what is stood in for, as a checksum.
AIOKAFKA: Final = {0xA8A55DA9: "0.14.0"}

#: What a broker answers where a batch is too large for the topic, or for a segment of its log.
TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

#: Where a batch that was halved has the outcomes of all its records: the rest alone is left in it.
RECORDS: Final = "snapkafka_records"
#: A refusal holds so long for records of that size; then a limit may have been raised.
HOLDS_S: Final = 60.0
#: Between two lines in the log about one topic.
LOG_AGAIN_S: Final = 60.0


def is_too_large(error: BaseException | None) -> bool:
    """Return whether this is the producer's own limit, as aiokafka raises it or as Faust wraps it."""
    return isinstance(error, MessageSizeTooLargeError) or (
        isinstance(error, ProducerSendError) and isinstance(error.__cause__, MessageSizeTooLargeError)
    )


Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class _Refused:
    """A record that was too large with our header: its size with the header, as aiokafka estimates it, and until when
    (by the monotonic clock) the broker's refusal is taken to hold."""

    size: int
    until: float


class UnstampedRecords:
    """The unstamped records of one app.

    Args:
        host: whose machine is fed.
        producer: Faust's; each aiokafka producer that it makes is watched.
    """

    def __init__(self, host: Host, producer: Any, stamps: Stamps) -> None:
        self._host, self._stamps = host, stamps
        self._logged: dict[str, float] = {}  # when, by topic
        #: Of these records and of their batches.
        self.futures: WeakSet[asyncio.Future[Any]] = WeakSet()
        #: Per topic; empty: none was refused of late.
        self.refused: dict[str, _Refused] = {}
        make: Callable[..., Any] | None = getattr(producer, "_new_producer", None)
        if make is not None:
            producer._new_producer = partial(self._made, make)
            if (made := getattr(producer, "_producer", None)) is not None:
                self._watch(made)

    # -- asked before a record is stamped -------------------------------------------------------------------------

    def expected(self, topic: str, key: bytes | None, value: bytes | None, others: Headers) -> bool:
        """Return whether a record of this size, stamped as this one would be, was refused recently."""
        refused = self.refused.get(topic)
        if refused is None:
            return False
        if time.monotonic() > refused.until:
            del self.refused[topic]
            return False
        return _size(key, value, [*others, (wire.HEADER, bytes(wire.CAUSED_BYTES))]) >= refused.size

    # -- records that have left -----------------------------------------------------------------------------------

    def left(self, tp: TopicPartition, future: asyncio.Future[Any]) -> None:
        """Note that a record was appended unstamped; to be called in that instant."""
        self.futures.add(future)
        self._notify(tp, 1)

    def _notify(self, tp: TopicPartition, count: int) -> None:
        self._host.metrics.bare += count
        self._host.do(self._host.machine.left_unstamped(tp))
        now = time.monotonic()
        if now > self._logged.get(tp.topic, float("-inf")) + LOG_AGAIN_S:
            self._logged[tp.topic] = now
            logger.warning(
                "snapkafka: %d records to %s were sent without the header of snapkafka, which would have exceeded"
                " a size limit of producer, broker or topic; open snapshots fail (sent-bare); raise"
                " max.message.bytes of the"
                " topic, or producer_max_request_size, by 64 bytes",
                count,
                tp,
                extra=self._host.about(),
            )

    # -- what a broker refuses ------------------------------------------------------------------------------------

    def _made(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        made = make(*args, **options)
        with self._host.failing_open("to watch what a broker refuses"):
            self._watch(made)
        return made

    def _watch(self, client: Any) -> None:
        sender = getattr(client, "_sender", None)
        if sender is None or checksum([getattr(sender, "_send_produce_req", None)]) not in AIOKAFKA:
            logger.warning(
                "snapkafka: unknown release of aiokafka; the header makes records fail that are just below a size"
                " limit of broker or topic",
                extra=self._host.about(),
            )
            return
        sender._send_produce_req = partial(_send_produce_req, sender, self._smaller, self._host)

    def _smaller(self, accumulator: Any, batch: Any) -> list[MessageBatch] | None:
        """Make a batch smaller that was refused for its size.

        Returns:
            what is to be sent before it is sent again; None: it is not.
        """
        try:
            found = MemoryRecords(bytes(batch.get_data_buffer())).next_batch()
            records = list(found)
            if len(records) != len(batch._msg_futures):
                return None  # a batch that the app has made itself
            if len(records) > 1:
                return [_first_half(accumulator, batch, found, records)]
            return [] if self._stripped(accumulator, batch, found, *records) else None
        except Exception as error:
            self._host.stand_down("to send a batch again that was too large", error)
            return None

    def _stripped(self, accumulator: Any, batch: Any, found: Any, record: Any) -> bool:
        """Remove our header from a record that is alone in its batch; return whether it had one that it can do
        without: a marker is nothing else."""
        tp, header = TopicPartition(*batch.tp), wire.find(record.headers)
        if header is None or _is_marker(record):
            return False
        batch._builder, batch._msg_futures = _built(
            accumulator,
            found,
            0,
            [(record, wire.without_header(record.headers))],
            [future for future, _ in batch._msg_futures],
        )
        self._remember(tp.topic, record, compressed=bool(accumulator._compression_type))
        self.futures.update((batch.future, *(future for future, _ in batch._msg_futures)))
        self._give_back(tp, header)
        self._notify(tp, 1)
        return True

    def _remember(self, topic: str, record: Any, *, compressed: bool) -> None:
        """Remember the size of a record that was refused uncompressed. How far another one compresses is unknown, so
        that is tried with a header again."""
        if not compressed:
            self.refused[topic] = _Refused(
                _size(record.key, record.value, record.headers), time.monotonic() + HOLDS_S
            )

    def _give_back(self, tp: TopicPartition, header: bytes) -> None:
        """Hand the seq of a record back to the machine: it was never used."""
        stamp = wire.read(header, self._stamps.ledger_id, wire.tp_check(tp.topic, tp.partition))
        if stamp is not None and stamp.process == self._host.machine.process:
            self._host.machine.seqs_unused(tp, stamp.seq, stamp.seq)


def _first_half(accumulator: Any, batch: Any, found: Any, records: list[Any]) -> MessageBatch:
    """Return the first half of a batch as another one, and leave the rest in it: a flush waits for it until its last
    record has left."""
    middle, waiting = len(records) // 2, [future for future, _ in batch._msg_futures]
    as_they_are = [(record, record.headers) for record in records]
    halves = [
        _built(accumulator, found, start, as_they_are[start:end], waiting[start:end])
        for start, end in ((0, middle), (middle, len(records)))
    ]
    if not hasattr(batch, RECORDS):
        setattr(batch, RECORDS, waiting)
    first = MessageBatch(batch.tp, halves[0][0], batch._ttl, batch._linger_time)
    first._msg_futures, first._ctime, first._retry_count = halves[0][1], batch._ctime, batch._retry_count
    batch._builder, batch._msg_futures = halves[1]
    return first


def _built(
    accumulator: Any,
    found: Any,
    start: int,
    records: Iterable[tuple[Any, Headers]],
    waiting: Iterable[asyncio.Future[Any]],
) -> tuple[BatchBuilder, list[tuple[asyncio.Future[Any], Any]]]:
    """Return the part of the batch `found` that begins with its record number `start`, with these headers."""
    builder = accumulator.create_builder()
    futures = []
    for (record, headers), future in zip(records, waiting, strict=True):
        metadata = builder.append(
            timestamp=record.timestamp, key=record.key, value=record.value, headers=list(headers)
        )
        if metadata is None:
            raise ValueError("a part of a batch does not fit where the whole did")
        futures.append((future, metadata))
    builder.close()
    if found.producer_id >= 0:
        builder._set_producer_state(found.producer_id, found.producer_epoch, found.base_sequence + start)
    return builder, futures


async def _send_produce_req(
    sender: Sender,
    smaller: Callable[[Any, Any], list[MessageBatch] | None],
    host: Host,
    node_id: int,
    batches: Any,
) -> None:
    """Replace `Sender._send_produce_req` by one whose handler asks us about batches that are too large."""
    before: list[MessageBatch] = []
    try:
        handler: SendProduceReqHandler = _Handler(sender, batches)
        handler.smaller, handler.before = smaller, before
    except Exception as error:
        host.stand_down("to watch what a broker refuses", error)
        handler = SendProduceReqHandler(sender, batches)
    try:
        await handler.do(node_id)
    finally:
        for batch in before:
            _put_first(sender._message_accumulator, batch)
    sender._in_flight.remove(node_id)
    for tp in batches:
        sender._muted_partitions.remove(tp)


def _put_first(accumulator: Any, batch: MessageBatch) -> None:
    """Send a batch of ours before all others of its partition."""
    if accumulator._exception is not None:
        batch.failure(accumulator._exception)
        return
    accumulator._batches[batch.tp].appendleft(batch)
    batch.future.add_done_callback(lambda _: accumulator._pending_batches.discard(batch))


class _Handler(SendProduceReqHandler):
    smaller: Callable[[Any, Any], list[MessageBatch] | None]
    before: list[MessageBatch]
    #: Whether something is sent again that is as large as it was.
    same_again = False

    def _can_retry(self, error: Any, batch: Any) -> bool:
        if isinstance(error, TOO_LARGE):
            found = self.smaller(self._sender._message_accumulator, batch)
            self.before += found or ()
            again = found is not None
        else:
            again = bool(super()._can_retry(error, batch))
            self.same_again |= again
        self._default_backoff = self._sender._retry_backoff if self.same_again else 0
        return again


def _is_marker(record: Any) -> bool:
    header = wire.find(record.headers)
    return header is not None and len(header) == wire.MARKER_BYTES and record.value is None


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
    return size
