"""The fast path from Faust's producer into aiokafka's batches.

`Producer.send` of Faust and `AIOKafkaProducer.send` are four coroutines. For every record they check whether a sensor
is interested, whether the topic is known and whether the partition exists, and then put it into the batch of that
partition. Where none of this has to wait, and nothing fails, `Batches.add` does the same in one step, which saves more
than a stamp costs (docs/evidence/performance.md).

Where it would have to wait or to raise an error, and with an unknown Faust or aiokafka, it returns None: then the
record takes the slow path, as it would without us. This is checked whenever Faust has created a producer; a wrapper
that is put around aiokafka's producer later is not seen.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from aiokafka.producer.message_accumulator import MessageBatch

if TYPE_CHECKING:
    import asyncio

__all__ = ["Batches"]

#: The sources of what is stood in for, as checksums: others may do more, or something else (a tracer that goes around
#: `send`, a later release), and are left to do it.
FAUST: Final = {0x2E5C24CC: "0.15.3 on mode-streaming 0.7.1"}
AIOKAFKA: Final = {0x2BA61C46: "0.13.0", 0xDD5C5FC1: "0.14.0"}

#: What a record with no header but ours takes besides key and value is far less, in bytes. aiokafka works it out for
#: each, and encodes all headers for it.
SURELY_LESS: Final = 1_024

#: aiokafka tells of each record here; and it is made to, for Faust's worker sets the root logger to DEBUG, for its
#: spinner, unless it is told to log more than warnings.
_aiokafka_log: Final = logging.getLogger("aiokafka.producer.producer")


class Batches:
    """The batches of one app's producer.

    Args:
        producer: Faust's, whose `send` and `buffer.put` are still its own.
    """

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        told = getattr(producer, "_send_on_produce_message", None)
        self._listeners: Any = getattr(told, "__self__", None)
        stood_in_for = [
            producer.send,
            producer.buffer.put,
            getattr(producer, "key_partition", None),
            getattr(self._listeners, "iter_receivers", None),
        ]
        self._known = checksum(stood_in_for) in FAUST
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
                checksum(_stood_in_for(client)) in AIOKAFKA
                and self._producer.allow_headers
                and client._key_serializer is None
                and client._value_serializer is None
                and client._txn_manager is None
            )
        except AttributeError:
            return False


def _stood_in_for(client: Any) -> list[Any]:
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


def checksum(functions: Iterable[Any]) -> int | None:
    """Compute a checksum of the sources of functions and methods; None where one of them is wrapped or has no
    source."""
    found = 0
    for function in functions:
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is not FunctionType:
            return None
        try:
            found = crc32(inspect.getsource(plain.__code__).encode(), found)  # its own: a wrapper has another
        except (OSError, TypeError):
            return None
    return found
