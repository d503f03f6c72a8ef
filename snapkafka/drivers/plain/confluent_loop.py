"""A loop with confluent-kafka as a participant: its clients block, so the ledger has a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import blocking_until
from snapkafka.wire import headers as wire

from .confluent_clients import Consumer, Producer
from .confluent_sends import ConfluentSends
from .confluent_settings import connection_of, generation_of, require_usable
from .participant import FINISHED_EVERY_S, UNFINISHED, Participant, Plan
from .running_events import place_of

logger = logging.getLogger("snapkafka")

T = TypeVar("T")

#: One call of the consumer; between two the producer's callbacks run.
POLL_S: Final = 0.1
FLUSH_S: Final = 10.0
#: So long a revocation waits for the events of threads.
FINISH_S: Final = 5.0
COMMITTED_S: Final = 10.0
FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class LoopThread:
    """A loop of asyncio in a thread of its own, as the clients block; it ends with the program, or by `close`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="snapkafka", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine there, and wait for it.

        Raises:
            TimeoutError: it took longer; it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class ConfluentParticipant(Participant):
    """A loop with confluent-kafka in a snapshot; threads may share it. Arguments: see `Participant`."""

    def __init__(self, plan: Plan) -> None:
        self._consumer: Consumer | None = plan.consumer
        self._producer: Producer | None = plan.producer
        require_usable(plan)
        clients = [client for client in (plan.consumer, plan.producer) if client is not None]
        super().__init__(plan, connection_of(clients[0].config), reset=_reset(plan.consumer))
        self._left = False
        if self._producer is not None:
            self._sends = ConfluentSends(
                self._producer,
                sends=self.sends,
                await_identity=self._await_identity,
            )
            self.host.marked = self._sends.send_markers
            if "transactional.id" in self._producer.config:
                self._sends.transaction = self.transact(_is_fenced)
        self.bind_table(self._change, before=self._await_identity)

    # -- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.take_clients()
        self._thread = LoopThread()
        try:
            self._thread.call(self.join())
            if self._producer is not None:
                self._producer.sends, self._producer.transactions = self._sends, self.transactions
            if self._consumer is not None:
                self._consumer.subscribe(
                    list(self.plan.inputs), on_assign=self._assigned, on_revoke=self._revoked
                )
                self._consumer.held, self._consumer.moved = self.host.held, self.host.reading_moved
        except BaseException:
            self._leave_clients()
            self._thread.call(self.leave(in_order=True))
            self._thread.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._left = True
        in_order = True
        if self._producer is not None:
            if self.transactions is not None:
                self.transactions.left()
            elif left := self._producer.flush(FLUSH_S):
                in_order = False
                logger.warning(
                    "snapkafka: %d records are not acknowledged at the end", left, extra=self.host.about()
                )
        self.events.on_revoked()
        self._leave_clients()
        if self._consumer is not None:
            with contextlib.suppress(KafkaException, RuntimeError):  # the loop has closed it
                self._consumer.unsubscribe()
        self._thread.call(self.leave(in_order=in_order))
        self._thread.close()

    def _leave_clients(self) -> None:
        self.release_clients()
        if self._producer is not None:
            self._producer.sends = self._producer.transactions = None
        if self._consumer is not None:
            self._consumer.held = self._consumer.moved = None

    def _await_identity(self) -> None:
        """Wait until this process has an id, as long as R15 allows."""
        if self.host.machine.process is None and not self.host.absent:
            self._thread.call(self.host.follower.for_identity())

    # -- for the loop -----------------------------------------------------------------------------------------------

    def poll(self, quiet_s: float | None = None) -> Iterator[Any]:
        """Yield the messages of the inputs, each to be processed in its `event`.

        Args:
            quiet_s: end when there was no message for so many seconds; None: go on until `stop`.

        Raises:
            BadInputError: the last message was processed outside of an event.
            KafkaException: the client's own errors.
        """
        consumer = self._consumer
        if consumer is None:
            raise BadInputError("a participant without a consumer has nothing to poll", hint="give it one")
        quiet_since = time.monotonic()
        while not self.stopping:
            self.require_in_order()
            message = consumer.plainly(POLL_S if quiet_s is None else min(POLL_S, quiet_s))
            if self._producer is not None:
                self._producer.poll(0)
            if self.waits_for_others():
                quiet_since = time.monotonic()
            if message is None:
                if quiet_s is not None and time.monotonic() - quiet_since >= quiet_s:
                    return
                continue
            if not self._is_record(message) or not self._take_in(consumer, message):
                continue
            yield message
            quiet_since = time.monotonic()

    def rewind(self) -> None:
        """Go back to the committed positions, after an aborted transaction.

        Raises:
            KafkaException: the committed positions are unknown.
        """
        consumer = self._consumer
        if consumer is not None and (tps := consumer.assignment()):
            self.events.on_revoked()
            for tp in self._announced(consumer, tps):
                consumer.seek(tp)
        self.rewound()

    # -- records that come in ---------------------------------------------------------------------------------------

    def _is_record(self, message: Any) -> bool:
        """Return whether this is a record; raise the client's own errors."""
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._MAX_POLL_EXCEEDED:
            logger.warning(
                "snapkafka: poll was not called for max.poll.interval.ms, so the group goes on without this member;"
                " raise it, or process less between two messages",
                extra=self.host.about(),
            )
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        return False

    def _take_in(self, consumer: Consumer, message: Any) -> bool:
        """Return whether the loop gets this record now."""
        (tp, offset), held = place_of(message), self.host.held
        times, header = held.times, None
        consumer.came(tp, offset)
        if held.holds(tp):
            consumer.put_back(tp, offset)
            return False
        if headers := message.headers():
            header, rest = wire.take_out(headers)
            if header is not None:
                message.set_headers(rest)
        found = self.gate.decide(tp, offset, message.key(), message.value(), header)
        met = None if self.host.absent else found.met
        if met is not None and self._thread.call(self.host.follower.meet(met)):
            held.hold(tp, times)
            consumer.put_back(tp, offset)
            return False
        if found.ended is not None:
            self.host.feed(found.ended)
        if not found.passes:
            return False
        if not self.hand_out(tp, offset):
            consumer.put_back(tp, offset)
            return False
        return True

    # -- inputs that come and go --------------------------------------------------------------------------------------

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if self._left:
            return
        if self.plan.table is not None and self.transactions is not None:
            self.transactions.require_kept()  # its changelog is read up to no open transaction
        partitions = self._announced(consumer, partitions)
        consumer.starts(partitions)
        consumer.assign(partitions)
        self.rewound()
        if self.plan.on_assign is not None:
            self.plan.on_assign(consumer, partitions)

    def _announced(self, consumer: Any, partitions: list[Any]) -> list[Any]:
        """Announce inputs; return them with the offsets at which they start."""
        try:
            found = consumer.committed(partitions, COMMITTED_S) if partitions else []
            if failed := next((tp.error for tp in found if tp.error is not None), None):
                raise KafkaException(failed)
        except KafkaException as error:
            if self.plan.table is not None:
                raise
            self.host.log_failed("to announce its inputs", error)
            self.host.loop.call_soon_threadsafe(self.host.follower.without_inputs)
            return partitions
        committed = {
            TopicPartition(tp.topic, tp.partition): tp.offset if tp.offset >= 0 else None for tp in found
        }
        generation, member = generation_of(consumer.consumer_group_metadata())
        starts = self._thread.call(self.assigned(committed, generation=generation, member=member))
        for tp in found:
            tp.offset = starts[TopicPartition(tp.topic, tp.partition)]
        return list(found)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        try:
            blocking_until(lambda: not self.events.run(), FINISH_S, UNFINISHED, every_s=FINISHED_EVERY_S)
        except TimedOutError:
            self.log_unfinished(FINISH_S)
        try:
            if self.plan.on_revoke is not None:
                self.plan.on_revoke(consumer, partitions)
        finally:
            if not self._left:
                self.revoked()
                consumer.resume_all()

    # -- the table ----------------------------------------------------------------------------------------------------

    def _change(self, partition: int, key: bytes, value: bytes | None) -> None:
        record = {"key": key, "value": value, "partition": partition, "timestamp": 0}
        self._sends.append(self.plan.changelog, record)


def _reset(consumer: Consumer | None) -> str:
    reset = "error" if consumer is None else str(consumer.config.get("auto.offset.reset", "largest"))
    if reset == "error":
        return ""
    return "earliest" if reset in ("smallest", "earliest", "beginning") else "latest"


def _is_fenced(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in FENCED
