"""confluent-kafka's clients with the hooks that a participant needs; outside of one they do what its own do.

A record is stamped and put into the queue in one instant. librdkafka keeps the order of its queue in each partition, so
the order of the stamps is that of the log. A stamp names the partition, so it is chosen before, by the partitioners of
librdkafka.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Final
from zlib import crc32

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from snapkafka.errors import BadInputError
from snapkafka.protocol import MarkerSettled, SendMarkers, SendOutcome
from snapkafka.protocol import TopicPartition as OurPartition
from snapkafka.until import blocking_until
from snapkafka.wire import headers as wire

from ..sends import RECORDING, Partition, Run, Sends, Stamp, Unacknowledged, outcome_of
from .participant import READ_AROUND, READ_BY, PlainDriver
from .running_events import Events

UNASSIGNED: Final = -1
#: While something is held back, one call takes no longer.
HELD_POLL_S: Final = 0.02
#: librdkafka asks for partitions that were added as often.
PARTITIONS_HOLD_S: Final = 300.0
METADATA_S: Final = 10.0
#: A broker that is away delays a record no longer where the partitions were known before, and not again for a while.
LOOK_S: Final = 1.0
LOOK_AGAIN_S: Final = 0.1
#: The record itself is at fault, or it never left the queue.
REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._PURGE_QUEUE,
    }
)
Partitioner = Callable[[bytes | None, int], int]


class Consumer(confluent_kafka.Consumer):
    """`confluent_kafka.Consumer`.

    Attributes:
        config: its settings, which may come as a mapping, or as keywords.
        host: of its participant; None: no participant reads it.
    """

    def __init__(self, config: Mapping[str, Any], **more: Any) -> None:
        super().__init__(dict(config), **more)
        self.config = {**config, **more}
        self.host: PlainDriver | None = None
        self._sought: dict[tuple[str, int], int] = {}  # what librdkafka has no position of
        self._next: dict[OurPartition, int] = {}  # what is to come
        self._to_bound: set[OurPartition] = set()  # sought to the start or end of the log, wherever that is

    def plainly(self, timeout_s: float) -> Any:
        """Read a record, as confluent-kafka does, from all inputs but those that are held back."""
        self._hold_back()
        message = super().poll(min(timeout_s, HELD_POLL_S) if self.host and self.host.held else timeout_s)
        if self._sought and message is not None:
            self._sought.pop((message.topic(), message.partition()), None)
        return message

    def put_back(self, tp: OurPartition, offset: int) -> None:
        self._hold_back()
        super().seek(TopicPartition(tp.topic, tp.partition, offset))
        self._sought[tp] = self._next[tp] = offset

    def _hold_back(self) -> None:
        if self.host is not None:
            self.host.hold_back(pause=self._pause, resume=self._resume)

    def _pause(self, tps: list[OurPartition]) -> None:
        super().pause([TopicPartition(*tp) for tp in tps])

    def _resume(self, tps: list[OurPartition]) -> None:
        super().resume([TopicPartition(*tp) for tp in tps])

    def seek(self, partition: TopicPartition) -> None:
        """Seek; see `confluent_kafka.Consumer.seek`. What librdkafka itself has passed is no record: it is the end of a
        transaction, or was aborted."""
        tp, to = OurPartition(partition.topic, partition.partition), partition.offset
        due, (passed,) = self._next.get(tp), super().position([TopicPartition(*tp)])
        super().seek(partition)
        self._sought.pop(tp, None)
        if self.host is not None and to >= 0:
            self.host.reading_moved(tp, due if due is None else max(due, passed.offset), to, "sought")
            self._next[tp] = to
        elif to < 0:
            self._to_bound.add(tp)

    def starts(self, partitions: list[TopicPartition]) -> None:
        """Note where reading starts after an assignment."""
        self._to_bound.clear()
        self._next = {OurPartition(tp.topic, tp.partition): tp.offset for tp in partitions if tp.offset >= 0}

    def came(self, tp: OurPartition, offset: int) -> None:
        """Note a record that was read. What should have come before it was lost, unless the log still has it:
        compaction and transactions leave gaps. librdkafka resets a position by itself, and tells nobody; but it knows
        where the log began when the record was fetched."""
        due, self._next[tp] = self._next.get(tp, offset), offset + 1
        if self.host is None:
            return
        if tp in self._to_bound:
            self._to_bound.remove(tp)
            self.host.reading_moved(tp, due, offset, "sought")
        elif offset > due:
            begins, _ = super().get_watermark_offsets(TopicPartition(*tp), cached=True)
            if begins > offset or begins < 0:
                self.host.reading_moved(tp, -1, offset, "lost")
            elif begins > due:
                self.host.reading_moved(tp, due, begins, "lost")

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the positions; that of a record that is held back is its offset."""
        found: list[TopicPartition] = super().position(partitions)
        for tp in found if self._sought else ():
            tp.offset = self._sought.get((tp.topic, tp.partition), tp.offset)
        return found

    def commit(self, *arguments: Any, **more: Any) -> Any:
        """Commit; see `confluent_kafka.Consumer.commit`. Without offsets, no record that is held back is committed."""
        stores = str(self.config.get("enable.auto.offset.store", "true")).lower() != "false"
        if self._sought and stores and not (arguments or {"message", "offsets"} & more.keys()):
            more["offsets"] = [tp for tp in self.position(self.assignment()) if tp.offset >= 0]
        return super().commit(*arguments, **more)

    def poll(self, *arguments: Any, **more: Any) -> Any:
        """Read a record; outside of a participant only."""
        self._require_free()
        return super().poll(*arguments, **more)

    def consume(self, *arguments: Any, **more: Any) -> Any:
        self._require_free()
        return super().consume(*arguments, **more)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pause partitions; see `confluent_kafka.Consumer.pause`."""
        if self.host is not None:
            self.host.paused_by_loop(OurPartition(tp.topic, tp.partition) for tp in partitions)
        super().pause(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Resume partitions, those that are held back as soon as they are let go."""
        if self.host is not None:
            held = self.host.resumed_by_loop(OurPartition(tp.topic, tp.partition) for tp in partitions)
            partitions = [tp for tp in partitions if (tp.topic, tp.partition) not in held]
        super().resume(partitions)

    def resume_all(self) -> None:
        """Resume what was paused here: the inputs are revoked."""
        self._sought.clear()
        if self.host is not None and (paused := self.host.forget_paused()):
            self._resume(paused)

    def _require_free(self) -> None:
        if self.host is not None:
            raise BadInputError(READ_AROUND, hint=READ_BY)


class Producer(confluent_kafka.Producer):
    """`confluent_kafka.Producer`; what it sends in a participant gets a stamp.

    Attributes:
        config: its settings, which may come as a mapping, or as keywords.
        sends: of its participant.
        events: of that, if the producer has transactions.
    """

    def __init__(self, config: Mapping[str, Any], **more: Any) -> None:
        super().__init__(dict(config), **more)
        self.config = {**config, **more}
        self.sends: Sends | None = None
        self.events: Events | None = None
        self._counts: dict[str, tuple[int, float]] = {}  # partitions of a topic, and until when that holds

    def plainly(self, topic: str, **record: Any) -> None:
        """Send without a stamp, as confluent-kafka does."""
        super().produce(topic, **record)

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = UNASSIGNED,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
        *,
        callback: Any = None,
    ) -> None:
        """Send a record; see `confluent_kafka.Producer.produce`. Errors of the client are its own."""
        notify = on_delivery or callback
        if self.sends is not None and not self.sends.host.absent and partition < 0:
            raw = key.encode() if isinstance(key, str) else key
            partition = partitioner_of(self.config)(raw, self._partitions(topic))
        record = {"value": value, "key": key, "partition": partition, "timestamp": timestamp}
        if self.sends is None:
            self.plainly(topic, **record, on_delivery=notify, headers=headers)
        else:
            self.append(self.sends, topic, record, headers, notify)

    def produce_batch(self, *arguments: Any, **more: Any) -> Any:
        """Send a batch; outside of a participant only, as its records get no stamps."""
        if self.sends is not None:
            raise BadInputError(
                "produce_batch is not supported in a participant", hint="call produce for each record"
            )
        return super().produce_batch(*arguments, **more)

    def begin_transaction(self) -> None:
        with nullcontext() if self.events is None else self.events.beginning():
            super().begin_transaction()

    def commit_transaction(self, *arguments: Any) -> None:
        """Commit the transaction, unless inputs were revoked in it: what was sent in it counts from now on."""
        with nullcontext() if self.events is None else self.events.committing():
            super().commit_transaction(*arguments)

    def abort_transaction(self, *arguments: Any) -> None:
        """Abort the transaction; in a participant, `rewind()` it afterwards."""
        with nullcontext() if self.events is None else self.events.aborting():
            super().abort_transaction(*arguments)

    # -- in a participant ---------------------------------------------------------------------------------------------

    def append(
        self, sends: Sends, topic: str, record: dict[str, Any], headers: Any = None, notify: Any = None
    ) -> None:
        """Stamp a record that has its partition, and put it into the queue; may be called under the lock."""
        host, others = sends.host, wire.without_header(headers)
        with host.lock:
            partition = sends.partitions[topic, record["partition"]]
            stamp = host.note(RECORDING, sends.stamp, partition, self, lambda: False)
            try:
                self._put(sends, partition, stamp, record, others, notify)
            except KafkaException as error:
                if not (stamp and stamp[2]) or error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                bare = host.machine.send_entered(sends.cause()), None, None, None
                self._put(sends, partition, bare, record, others, notify)

    def _put(
        self, sends: Sends, partition: Partition, stamp: Stamp | None, record: Any, others: Any, notify: Any
    ) -> None:
        """Put a record into the queue; where that fails, its stamp is taken back."""
        topic = partition.tp.topic
        if stamp is None:
            self.plainly(topic, **record, headers=others or None, on_delivery=notify)
            return
        headers = [*others, (wire.HEADER, stamp[2])] if stamp[2] else others or None
        run = Run(partition.tp, stamp[0], stamp[1])
        delivered = partial(self._delivered, sends, run, notify)
        try:
            self.plainly(topic, **record, headers=headers, on_delivery=delivered)
        except BaseException:
            sends.not_appended(partition, stamp)
            raise
        if self.events is not None and self.events.sent is not None:
            self.events.sent.hold(run)
        sends.appended(partition, stamp)

    def _delivered(self, sends: Sends, run: Run, notify: Any, error: Any, message: Any) -> None:
        try:
            offset = -1 if error is not None or message.offset() is None else message.offset()
            failure = outcome_of(None) if offset < 0 else None
            if error is not None:
                refused = error.code() in REFUSED
                failure = Unacknowledged(SendOutcome.REFUSED if refused else SendOutcome.UNKNOWN, str(error))
            with sends.host.lock:
                sends.settled(run, offset, failure)
        except Exception as fault:
            sends.host.stand_down(RECORDING, fault)
        if notify is not None:
            notify(error, message)

    def send_markers(self, action: SendMarkers) -> None:
        """Send a marker to each partition. Called under the lock, so before any red record."""
        sends = self.sends
        if sends is None or sends.host.machine.process is None:
            return
        for tp in action.tps:
            key, header, run = sends.marker(sends.partitions[tp], action)
            try:
                self.plainly(
                    tp.topic,
                    key=key,
                    partition=tp.partition,
                    headers=[(wire.HEADER, header)],
                    on_delivery=partial(self._delivered, sends, run, None),
                )
            except Exception as error:
                assert run.last is not None
                sends.host.machine.colours.sent[tp].unused(run.last, run.last)
                sends.host.feed(MarkerSettled(epoch=action.epoch, tp=tp, failure=repr(error)))

    def _partitions(self, topic: str) -> int:
        count, until = self._counts.get(topic, (0, 0.0))
        if time.monotonic() >= until:
            within_s = LOOK_S if count else METADATA_S
            try:
                count = blocking_until(  # the broker may create it
                    lambda: len(self.list_topics(topic, within_s).topics[topic].partitions),
                    METADATA_S,
                    f"topic {topic}",
                    every_s=LOOK_AGAIN_S,
                )
            except KafkaException:
                if not count:
                    raise
            self._counts[topic] = count, time.monotonic() + PARTITIONS_HOLD_S
        return count


def partitioner_of(config: Mapping[str, object]) -> Partitioner:
    """Return the partitioner that a producer with these settings has, unless it is one that only librdkafka has."""
    name = str(config.get("partitioner", "consistent_random"))  # librdkafka's own default
    if name not in PARTITIONERS:
        raise BadInputError(
            f"partitioner {name} is not supported in a participant",
            hint=f"use {', '.join(PARTITIONERS)}, or name the partition of each record",
        )
    return PARTITIONERS[name]


def _murmur2(key: bytes | None, count: int) -> int:
    from aiokafka.partitioner import murmur2

    return (int(murmur2(key or b"")) & 0x7FFF_FFFF) % count


def _any(key: bytes | None, count: int) -> int:
    return random.randrange(count)


#: By librdkafka's names.
PARTITIONERS: Final[Mapping[str, Partitioner]] = {
    "random": _any,
    "consistent": lambda key, count: crc32(key or b"") % count,
    "consistent_random": lambda key, count: crc32(key) % count if key else _any(key, count),
    "murmur2": _murmur2,
    "murmur2_random": lambda key, count: _any(key, count) if key is None else _murmur2(key, count),
}
