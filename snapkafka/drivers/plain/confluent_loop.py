"""A loop with confluent-kafka as a participant: its clients block, so the ledger has a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Final, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import ALIASES, TABLE, Security
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import blocking_until
from snapkafka.wire import headers as wire

from .. import gate
from .confluent_clients import Consumer, Producer, partitioner_of
from .participant import FINISHED_EVERY_S, UNFINISHED, Participant
from .plan import Plan
from .running_events import place_of

T = TypeVar("T")

#: One call of the consumer; between two the producer's callbacks run.
POLL_S: Final = 0.1
FLUSH_S: Final = 10.0
#: So long a revocation waits for the events of threads.
FINISH_S: Final = 5.0
COMMITTED_S: Final = 10.0
#: With both, a record is committed soon after it was read.
COMMITS_BY_ITSELF: Final = ("enable.auto.commit", "enable.auto.offset.store")
#: What librdkafka writes before the generation in the metadata of a consumer group.
MAGIC: Final = b"CGMDv2:"


class LoopThread:
    """A loop of asyncio in a thread of its own, as the clients block; it ends with the program, or by `close`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="snapkafka", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        finally:
            future.cancel()  # if this thread was interrupted

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class ConfluentParticipant(Participant):
    """A loop with confluent-kafka in a snapshot; threads may share it. Arguments: see `Participant`."""

    def __init__(self, plan: Plan) -> None:
        self._consumer: Consumer | None = plan.consumer
        self._producer: Producer | None = plan.producer
        require_usable(plan)
        super().__init__(plan, connection_of(plan.clients[0].config), reset=_reset(plan.consumer))
        self._left = False
        if self._producer is not None:
            self.host.marked = self._producer.send_markers
            if "transactional.id" in self._producer.config:
                self.transact()

    # -- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.take_clients()
        self._thread = LoopThread()
        try:
            self._thread.call(self.join())
            if self._producer is not None:
                self._producer.sends = self.sends
                self._producer.events = None if self.events.sent is None else self.events
            if self._consumer is not None:
                self._consumer.subscribe(
                    list(self.plan.inputs), on_assign=self._assigned, on_revoke=self._revoked
                )
                self._consumer.host = self.host
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
            if self.events.open:  # nobody commits it
                self.events.aborted(confirmed=False)
            elif self.events.sent is None and (left := self._producer.flush(FLUSH_S)):
                in_order = False
                self.host.log("%d records are not acknowledged at the end", left)
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
            self._producer.sends = self._producer.events = None
        if self._consumer is not None:
            self._consumer.host = None

    # -- for the loop -----------------------------------------------------------------------------------------------

    def poll(self, quiet_s: float | None = None) -> Iterator[Any]:
        """Yield the messages of the inputs, each to be processed in its `event`, until `stop`, or until there was none
        for `quiet_s` seconds. Errors of the client are its own.

        Raises:
            BadInputError: the last message was processed outside of an event.
        """
        consumer = self._consumer
        if consumer is None:
            raise BadInputError("a participant without a consumer has nothing to poll", hint="give it one")
        quiet_since = time.monotonic()
        while not self.stopping:
            self.events.require_in_order()
            message = consumer.plainly(POLL_S if quiet_s is None else min(POLL_S, quiet_s))
            if self._producer is not None:
                self._producer.poll(0)
            if self.waits_for_others():
                quiet_since = time.monotonic()
            if message is None:
                if quiet_s is not None and time.monotonic() - quiet_since >= quiet_s:
                    return
                continue
            if (error := message.error()) is None:
                if self._take_in(consumer, message):
                    yield message
                    quiet_since = time.monotonic()
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)

    def rewind(self) -> None:
        """Go back to the committed positions, after an aborted transaction."""
        consumer = self._consumer
        if consumer is not None and (tps := consumer.assignment()):
            self.events.on_revoked()
            for tp in self._announced(consumer, tps):
                consumer.seek(tp)
        self.events.unwound = False

    # -- records that come in ---------------------------------------------------------------------------------------

    def _take_in(self, consumer: Consumer, message: Any) -> bool:
        """Return whether the loop gets this record now."""
        (tp, offset), header = place_of(message), None
        consumer.came(tp, offset)
        if tp in self.host.held:
            consumer.put_back(tp, offset)
            return False
        if headers := message.headers():
            header, rest = wire.take_out(headers)
            if header is not None:
                message.set_headers(rest)
        found = gate.decide(self.host, tp, offset, message.key(), message.value(), header)
        met = None if self.host.absent else found.met
        waits = met is not None and self._thread.call(
            self.host.follower.meet(met, lambda: self.host.hold(tp))
        )
        return self.takes_in(found, tp, offset, waits=waits)

    def put_back(self, tp: TopicPartition, offset: int) -> None:
        assert self._consumer is not None
        self._consumer.put_back(tp, offset)

    # -- inputs that come and go --------------------------------------------------------------------------------------

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if self._left:
            return
        if self.plan.table is not None:
            self.events.require_kept()  # its changelog is read up to no open transaction
        partitions = self._announced(consumer, partitions)
        consumer.starts(partitions)
        consumer.assign(partitions)
        self.events.unwound = False
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
            if self.host.started:
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
        with self.finishing(FINISH_S):
            blocking_until(lambda: not self.events.run(), FINISH_S, UNFINISHED, every_s=FINISHED_EVERY_S)
        try:
            if self.plan.on_revoke is not None:
                self.plan.on_revoke(consumer, partitions)
        finally:
            if not self._left:
                self.revoked()
                consumer.resume_all()

    def change(self, partition: int, key: bytes, value: bytes | None) -> None:
        assert self._producer is not None and self.plan.table is not None
        record = {"key": key, "value": value, "partition": partition, "timestamp": 0}
        self._producer.append(self.sends, self.plan.table.changelog, record)


def require_usable(plan: Plan) -> None:
    """Refuse clients that cannot take part, by the name of the setting."""
    for client, ours in ((plan.consumer, Consumer), (plan.producer, Producer)):
        if client is not None and not isinstance(client, ours):
            raise BadInputError(
                f"{type(client).__module__}.{type(client).__name__} has no hooks for a participant",
                hint=f"from snapkafka.clients import {ours.__name__}: it takes the same settings",
            )
    if plan.producer is not None:
        partitioner_of(plan.producer.config)
    config: Mapping[str, Any] = {} if plan.consumer is None else plan.consumer.config
    commits = all(str(config.get(name, True)).lower() != "false" for name in COMMITS_BY_ITSELF)
    # librdkafka's default begins with "range".
    strategy = str(config.get("partition.assignment.strategy", "range"))
    plan.require_usable(
        group=config.get("group.id"),
        commits="set enable.auto.commit to False, and commit after the event; or enable.auto.offset.store, and store"
        " offsets then"
        if commits
        else "",
        unequal="" if strategy.startswith("range") else "set partition.assignment.strategy to range",
    )
    if "cooperative" in strategy or config.get("group.protocol", "classic") != "classic":
        raise BadInputError(
            "incremental rebalances are not supported in a participant",
            hint="set partition.assignment.strategy to range, and leave group.protocol out",
        )


def connection_of(config: Mapping[str, Any]) -> Connection:
    """Return the connection of these clients, for clients of our own: from `SNAPKAFKA_KAFKA_*` if set."""
    bootstrap = str(config.get("bootstrap.servers", config.get("metadata.broker.list", "")))
    given = {name: str(config[name]) for name in (*TABLE, *ALIASES) if config.get(name) is not None}
    return Connection.secured(bootstrap, Security.from_environment(os.environ) or Security.of(given))


def generation_of(metadata: object) -> tuple[int, str]:
    """Return the generation and the member id in librdkafka's metadata of a consumer group."""
    if not isinstance(metadata, bytes) or not metadata.startswith(MAGIC):
        raise BadInputError(
            "this release of confluent-kafka does not show the generation of the group",
            hint="use one of 2.6 to 2.16",
        )
    (generation,) = struct.unpack_from("=i", metadata, len(MAGIC))
    _, member, _ = (metadata[len(MAGIC) + 4 :] + b"\0\0").split(b"\0", 2)
    return generation, member.decode()


def _reset(consumer: Consumer | None) -> str:
    reset = "error" if consumer is None else str(consumer.config.get("auto.offset.reset", "largest"))
    if reset == "error":
        return ""
    return "earliest" if reset in ("smallest", "earliest", "beginning") else "latest"
