"""The records that a loop sends by confluent-kafka: stamped and put into the producer's queue in one instant.

librdkafka keeps the order of its queue in each partition, so the order of the stamps is that of the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from snapkafka.protocol.actions import SendMarkers
from snapkafka.protocol.events import MarkerFailed
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.until import blocking_until
from snapkafka.wire import headers as wire

from ..outcomes import Unacknowledged, outcome_of
from ..sends import Partition, Run, Sends, Stamp, Transaction
from .partitioner import partitioner_of

if TYPE_CHECKING:
    from .confluent_clients import Producer

#: librdkafka asks for partitions that were added as often.
PARTITIONS_HOLD_S: Final = 300.0
METADATA_S: Final = 10.0
#: A broker that is away delays a record no longer where the partitions were known before, and not again for a while.
LOOK_S: Final = 1.0
ASK_AGAIN_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.1
TOO_LARGE: Final = KafkaError.MSG_SIZE_TOO_LARGE
#: The record itself is at fault, or it never left the queue.
REFUSED: Final = frozenset(
    {
        TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._PURGE_QUEUE,
    }
)


class ConfluentSends:
    """The sending side of one loop.

    Args:
        sends: of the process; called under its lock.
        await_identity: waits a little until this process has an id; not to be called under the lock.

    Attributes:
        transaction: holds outcomes back, where the producer has transactions.
    """

    def __init__(self, producer: Producer, *, sends: Sends, await_identity: Callable[[], None]) -> None:
        self._producer, self._sends, self._await_identity = producer, sends, await_identity
        self._host: Any = sends.host
        self.transaction: Transaction | None = None
        self._partitioner = partitioner_of(producer.config)
        self._counts: dict[str, tuple[int, float]] = {}  # partitions of a topic, and until when that holds

    def produce(self, topic: str, record: dict[str, Any], headers: Any, notify: Any) -> None:
        """Send a record of the loop. Errors of the client are its own."""
        host = self._host
        if not host.absent and host.machine.process is None:
            self._await_identity()
        if record["partition"] < 0 and not host.absent:
            key = record["key"]
            raw = key.encode() if isinstance(key, str) else key
            record["partition"] = self._partitioner(raw, self._partitions(topic))
        self.append(topic, record, headers, notify)

    def append(self, topic: str, record: dict[str, Any], headers: Any = None, notify: Any = None) -> None:
        """Stamp a record that has its partition, and put it into the queue; may be called under the lock."""
        host, sends, others = self._host, self._sends, wire.without_header(headers)
        with host.lock:
            partition = sends.partitions[topic, record["partition"]]
            stamp = self._stamp(partition)
            if stamp is None or stamp[2] is None:
                self._append(partition, stamp, record, others or None, notify)
                return
            try:
                self._append(partition, stamp, record, [*others, (wire.HEADER, stamp[2])], notify)
            except BaseException as error:
                if not _is_too_large(error):
                    raise
                bare = host.machine.send_entered(sends.cause()), None, None, None
                self._append(partition, bare, record, others or None, notify)

    def _stamp(self, partition: Partition) -> Stamp | None:
        try:
            return self._sends.stamp(partition, self, lambda: False)
        except Exception as error:
            self._sends.stand_down(error)
            return None

    def _append(
        self, partition: Partition, stamp: Stamp | None, record: dict[str, Any], headers: Any, notify: Any
    ) -> None:
        """Put a record into the queue; where that fails, its stamp is taken back."""
        sends, delivered = self._sends, notify
        if stamp is not None:
            run = Run(partition.tp, stamp[0], stamp[1])
            delivered = partial(self._delivered, run, notify)
        try:
            self._producer.plainly(partition.tp.topic, **record, headers=headers, on_delivery=delivered)
        except BaseException:
            if stamp is not None:
                sends.not_appended(partition, stamp)
            raise
        if stamp is not None:
            if self.transaction is not None:
                self.transaction.hold(run)
            sends.appended(partition, stamp)

    def _delivered(self, run: Run, notify: Any, error: Any, message: Any) -> None:
        try:
            offset = -1 if error is not None or message.offset() is None else message.offset()
            failure = outcome_of(None) if offset < 0 else None
            if error is not None:
                refused = error.code() in REFUSED
                failure = Unacknowledged(SendOutcome.REFUSED if refused else SendOutcome.UNKNOWN, str(error))
            with self._host.lock:
                self._sends.settled(run, offset, failure)
        except Exception as fault:
            self._sends.stand_down(fault)
        if notify is not None:
            notify(error, message)

    def _partitions(self, topic: str) -> int:
        count, until = self._counts.get(topic, (0, 0.0))
        if time.monotonic() >= until:
            until = time.monotonic() + PARTITIONS_HOLD_S
            try:
                count = blocking_until(  # the broker may create it
                    lambda: len(self._asked(topic, LOOK_S if count else METADATA_S).partitions),
                    METADATA_S,
                    f"topic {topic}",
                    every_s=LOOK_AGAIN_S,
                )
            except KafkaException:
                if not count:
                    raise
                until = time.monotonic() + ASK_AGAIN_S
            self._counts[topic] = count, until
        return count

    def _asked(self, topic: str, timeout_s: float) -> Any:
        return self._producer.list_topics(topic, timeout_s).topics[topic]

    # -- markers ------------------------------------------------------------------------------------------------------

    def send_markers(self, action: SendMarkers) -> None:
        """Send a marker to each partition. Called under the lock, so before any red record."""
        sends, host = self._sends, self._host
        if host.machine.process is None:
            return
        for tp in action.tps:
            key, header, run = sends.marker(sends.partitions[tp], action)
            try:
                self._producer.plainly(
                    tp.topic,
                    key=key,
                    partition=tp.partition,
                    headers=[(wire.HEADER, header)],
                    on_delivery=partial(self._delivered, run, None),
                )
            except Exception as error:
                host.machine.marker_unstamped(tp, run.last)
                host.feed(MarkerFailed(epoch=action.epoch, tp=tp, reason=repr(error)))


def _is_too_large(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == TOO_LARGE
