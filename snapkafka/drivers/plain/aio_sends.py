"""The records that a loop sends by aiokafka: one lock for each partition covers the stamp and the place in its batch.

A table changes at once, without waiting; its changes wait in one queue until their event ends, in their order and
colour.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aiokafka.errors import MessageSizeTooLargeError

from snapkafka.errors import BadInputError
from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ..markers import MarkedPartitions, Markers
from ..outcomes import outcome
from .settle import SendOutcomes, Sent

if TYPE_CHECKING:
    from ..stamps import Stamps
    from ..waiting import LedgerWaits
    from .driver import PlainDriver
    from .running_events import Events, Run

Future = asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the table that has its colour, and is not sent yet."""

    run: Run | None
    effect: Effect | None
    tp: TopicPartition
    key: bytes
    value: bytes | None


class AioSends:
    """The sending side of one loop.

    Args:
        host: whose machine gives colours and seqs.
        producer: aiokafka's; its `send` and `send_batch` are patched between `attach` and `detach`.
    """

    def __init__(
        self,
        host: PlainDriver,
        producer: Any,
        *,
        stamps: Stamps,
        waiting: LedgerWaits,
        events: Events,
        outcomes: SendOutcomes,
    ) -> None:
        self._host, self._producer, self._events, self._outcomes = host, producer, events, outcomes
        self._stamps, self._waiting = stamps, waiting
        self._partitions = MarkedPartitions()
        self._changes: deque[Change] = deque()
        self._changing = asyncio.Lock()
        self._send: Callable[..., Awaitable[Future]] = producer.send
        self._send_batch = producer.send_batch
        self.markers = Markers(
            host,
            stamps,
            self._partitions,
            lambda tp, key, body: self._send(
                tp.topic, key=key, partition=tp.partition, headers=[(wire.HEADER, body)]
            ),
        )

    def attach(self) -> None:
        """Stamp what the producer sends from now on."""
        self._producer.send, self._producer.send_batch = self.send, self.send_batch

    def detach(self) -> None:
        """Give the producer its own methods back."""
        self._producer.send, self._producer.send_batch = self._send, self._send_batch

    async def send_batch(self, *arguments: Any, **more: Any) -> Future:
        """Refuse a batch.

        Raises:
            BadInputError: its records get no stamps.
        """
        raise BadInputError("send_batch is not supported in a participant", hint="call send for each record")

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Future:
        """Send a record; see `AIOKafkaProducer.send`. Errors of the client are its own."""
        others = list(headers or ())
        record = {"value": value, "key": key, "timestamp_ms": timestamp_ms}
        effect = self._entered()
        if effect is None or not await self._has_identity(effect):
            return await self._send(topic, **record, partition=partition, headers=others or None)
        if partition is None:
            try:
                partition = await self._choose(topic, key, value)
            except BaseException:
                self._host.do(self._host.machine.send_withdrawn(effect))
                raise
        return await self._append(effect, TopicPartition(topic, partition), record, others)

    def _entered(self) -> Effect | None:
        try:
            if not self._host.absent:
                return self._host.machine.send_entered(self._events.cause())
        except Exception as error:
            self._host.stand_down("to record a send", error)
        return None

    async def _has_identity(self, effect: Effect) -> bool:
        host = self._host
        if host.machine.process is None and not await self._waiting.for_identity():
            host.do(host.machine.send_withdrawn(effect))
            return False
        return True

    async def _choose(self, topic: str, key: Any, value: Any) -> int:
        """Choose the partition by the producer's own partitioner."""
        producer = self._producer
        await producer.client._wait_on_metadata(topic)
        raw_key, raw_value = producer._serialize(key, value, [])
        return int(producer._partition(topic, None, key, value, raw_key, raw_value))

    async def _append(
        self, effect: Effect, tp: TopicPartition, record: dict[str, Any], others: list[Any]
    ) -> Future:
        host, way = self._host, self._partitions[tp]
        place = {"topic": tp.topic, "partition": tp.partition}
        try:
            async with way.lock:
                while way.due and effect.epoch >= way.due[0].epoch:
                    await self.markers.append(way)
                effect, seq, headers = self._stamped(effect, tp, others)
                try:
                    future = await self._send(**place, **record, headers=headers)
                except MessageSizeTooLargeError:
                    if seq is None:
                        raise
                    host.machine.send_unstamped(effect, tp, seq)
                    seq = None
                    future = await self._send(**place, **record, headers=others or None)
                    host.metrics.bare += 1
                    host.do(host.machine.left_unstamped(tp))
                except BaseException:
                    if seq is not None:
                        host.machine.send_unstamped(effect, tp, seq)
                    raise
        except BaseException:
            if not host.absent:
                host.do(host.machine.send_withdrawn(effect))
            raise
        if not host.absent:
            sent = Sent(effect, tp, seq)
            self._outcomes.sent(sent)
            host.do(host.machine.send_appended(effect))
            future.add_done_callback(partial(self._sent, sent))
        return future

    def _stamped(
        self, effect: Effect, tp: TopicPartition, others: list[Any]
    ) -> tuple[Effect, int | None, list[Any]]:
        host, machine = self._host, self._host.machine
        try:
            if host.stamping:
                if effect.sent is not machine.colours.sent:  # it entered under an earlier identity
                    host.do(machine.send_withdrawn(effect))
                    effect = machine.send_entered_again(effect)
                seq = machine.send_stamped(effect, tp)
                header = self._stamps.of(wire.tp_check(*tp), effect, seq)
                return effect, seq, [*others, (wire.HEADER, header)]
        except Exception as error:
            host.stand_down("to stamp a record", error)
        return effect, None, others

    def _sent(self, sent: Sent, future: Future) -> None:
        self._outcomes.settled(sent, *outcome(future))

    # -- the table ----------------------------------------------------------------------------------------------------

    def change(self, tp: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Note a change of the table, in the colour of the event that runs here."""
        self._changes.append(Change(self._events.here(), self._entered(), tp, key, value))

    def forget_changes(self) -> None:
        """Withdraw the changes that wait: their partitions are revoked, and their changelogs another member's."""
        while self._changes:
            change = self._changes.popleft()
            if change.run is not None:
                change.run.withdrawn = True
            if change.effect is not None and not self._host.absent:
                self._host.do(self._host.machine.send_withdrawn(change.effect))

    async def send_changes(self) -> None:
        """Send all changes that wait. Errors of the client are its own.

        Raises:
            BadInputError: changes of the event that runs here were withdrawn.
        """
        run = self._events.here()
        if run is not None and run.withdrawn:
            raise BadInputError(
                "the inputs were revoked before the changes of this event were sent",
                hint="the group was rebalanced meanwhile: the message is processed again",
            )
        async with self._changing:
            while self._changes:
                change = self._changes.popleft()
                record = {"value": change.value, "key": change.key}
                if change.effect is None:  # a fault of ours (R15)
                    await self._send(change.tp.topic, **record, partition=change.tp.partition)
                else:
                    await self._append(change.effect, change.tp, record, [])
