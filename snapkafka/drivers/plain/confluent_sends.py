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
from snapkafka.protocol.events import MarkerFailed, MarkerSent
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ..outcomes import Unacknowledged
from .partitioner import partitioner_of
from .settle import SendOutcomes, Sent

if TYPE_CHECKING:
    from ..stamps import Stamps
    from .confluent_clients import Producer
    from .driver import PlainDriver
    from .running_events import Events

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
        host: whose machine gives colours and seqs.
        await_identity: waits a little until this process has an id; not to be called under the lock.
    """

    def __init__(
        self,
        host: PlainDriver,
        producer: Producer,
        *,
        stamps: Stamps,
        events: Events,
        outcomes: SendOutcomes,
        await_identity: Callable[[], None],
    ) -> None:
        self._host, self._producer, self._stamps = host, producer, stamps
        self._events, self._outcomes, self._await_identity = events, outcomes, await_identity
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
        host, others = self._host, _pairs(headers)
        with host.lock:
            tp = TopicPartition(topic, record["partition"])
            sent, stamped = self._stamped(tp, others)
            if sent is None:
                self._producer.plainly(topic, **record, headers=others or None, on_delivery=notify)
                return
            delivered = partial(self._delivered, sent, notify)
            try:
                self._producer.plainly(topic, **record, headers=stamped, on_delivery=delivered)
            except BaseException as error:
                assert sent.seq is not None
                host.machine.send_undone(sent.effect, tp, sent.seq)
                if not _is_too_large(error):
                    raise
                self._without_stamp(tp, record, others, notify)
            else:
                self._outcomes.sent(sent)

    def _stamped(self, tp: TopicPartition, others: list[tuple[str, Any]]) -> tuple[Sent | None, Any]:
        """Take a seq for a record; return what becomes of it, and its headers. None: it leaves without us (R15)."""
        host = self._host
        try:
            if host.stamping:
                effect, seq = host.machine.send_at_once(self._events.cause(), tp)
                header = self._stamps.of(wire.tp_check(*tp), effect, seq)
                return Sent(effect, tp, seq), [*others, (wire.HEADER, header)]
        except Exception as error:
            host.stand_down("to stamp a record", error)
        return None, others

    def _without_stamp(self, tp: TopicPartition, record: dict[str, Any], others: Any, notify: Any) -> None:
        """Send a record for which the header was too much, if it fits without (R15)."""
        machine = self._host.machine
        effect = machine.send_entered(self._events.cause())
        sent = Sent(effect, tp, None)
        delivered = partial(self._delivered, sent, notify)
        try:
            self._producer.plainly(tp.topic, **record, headers=others or None, on_delivery=delivered)
        except BaseException:
            self._host.do(machine.send_withdrawn(effect))
            raise
        self._outcomes.sent(sent)
        self._host.metrics.bare += 1
        self._host.do(machine.send_appended(effect))
        self._host.do(machine.left_unstamped(tp))

    def _delivered(self, sent: Sent, notify: Any, error: Any, message: Any) -> None:
        offset = -1 if error is not None or message.offset() is None else message.offset()
        failure = None
        if error is not None:
            failure = Unacknowledged(str(error), refused=error.code() in REFUSED)
        elif offset < 0:
            failure = Unacknowledged("the broker reported no offset (acks=0?)")
        self._outcomes.settled(sent, offset, failure)
        if notify is not None:
            notify(error, message)

    def _partitions(self, topic: str) -> int:
        count, until = self._counts.get(topic, (0, 0.0))
        if count and time.monotonic() < until:
            return count
        deadline = time.monotonic() + METADATA_S
        while True:
            try:
                found = self._producer.list_topics(topic, LOOK_S if count else METADATA_S).topics[topic]
            except KafkaException:
                if not count:
                    raise
                self._counts[topic] = count, time.monotonic() + ASK_AGAIN_S
                return count
            if found.partitions:
                break
            if time.monotonic() > deadline:
                raise KafkaException(found.error)
            time.sleep(LOOK_AGAIN_S)  # the broker creates it
        self._counts[topic] = len(found.partitions), time.monotonic() + PARTITIONS_HOLD_S
        return len(found.partitions)

    # -- markers ------------------------------------------------------------------------------------------------------

    def send_markers(self, action: SendMarkers) -> None:
        """Send a marker to each partition. Called under the lock, so before any red record."""
        host = self._host
        if host.machine.process is None:
            return
        answer = host.answering()
        for tp in action.tps:
            seq = host.machine.marker_stamped(tp)
            header = self._stamps.marker(tp, action, seq)

            def delivered(
                error: Any, message: Any, tp: TopicPartition = tp, seq: int = seq, epoch: int = action.epoch
            ) -> None:
                if error is None:
                    answer(MarkerSent(epoch=epoch, tp=tp, offset=message.offset()))
                else:
                    answer(MarkerFailed(epoch=epoch, tp=tp, reason=str(error), seq=seq))

            try:
                self._producer.plainly(
                    tp.topic,
                    key=wire.marker_key(host.machine.process),
                    partition=tp.partition,
                    headers=[(wire.HEADER, header)],
                    on_delivery=delivered,
                )
            except Exception as error:
                host.machine.marker_unstamped(tp, seq)
                host.feed(MarkerFailed(epoch=action.epoch, tp=tp, reason=repr(error)))


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items() if hasattr(headers, "items") else headers or ())


def _is_too_large(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == TOO_LARGE
