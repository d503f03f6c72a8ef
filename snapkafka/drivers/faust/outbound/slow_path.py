"""The slow path of sending: for records that have to wait (for a full batch, a marker that is due, a transaction,
...).

One lock per partition covers stamp and append. An error of the app's own client is returned as a value: so whatever is
raised from here is a fault of ours, met before anything was sent (R15).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from snapkafka.protocol.colours import Effect
from snapkafka.wire import headers as wire

from .partition import Partitions, PartitionState
from .unstamped import is_too_large

if TYPE_CHECKING:
    from ...host import Host
    from ...markers import Markers
    from ...stamps import Stamps
    from ...waiting import LedgerWaits
    from .entry import RecordEntry
    from .settle import SendOutcomes
    from .unstamped import UnstampedRecords

#: Topic, key, value, partition, timestamp.
Record = tuple[str, bytes | None, bytes | None, int | None, float | None]
Headers = Sequence[tuple[str, bytes]]


class SendResult(NamedTuple):
    """The outcome of a send: the client's future, or its error."""

    future: Any = None
    error: BaseException | None = None


class SlowPath:
    """The slow path of one app's producer.

    Args:
        host: whose machine gives seqs.
        producer: Faust's.
        send: its own `send`.
        in_transactions: does the app send in transactions?
    """

    def __init__(
        self,
        host: Host,
        producer: Any,
        send: Callable[..., Awaitable[asyncio.Future[Any]]],
        *,
        partitions: Partitions,
        entering: RecordEntry,
        stamps: Stamps,
        markers: Markers,
        unstamped: UnstampedRecords,
        settling: SendOutcomes,
        waiting: LedgerWaits,
        in_transactions: bool,
    ) -> None:
        self._host, self._machine = host, host.machine
        self._producer, self._send = producer, send
        self._partitions, self._entering, self._stamps = partitions, entering, stamps
        self._markers, self._unstamped, self._settling, self._waiting = markers, unstamped, settling, waiting
        self._in_transactions = in_transactions

    async def send(
        self, effect: Effect | None, record: Record, others: Headers, transactional_id: str | None
    ) -> SendResult | None:
        """Stamp and append; None: nothing has happened, and the record is sent as without us.

        Args:
            effect: the carried one; None: the record enters now.
            others: its headers, without ours.
        """
        topic, key, value, partition, timestamp = record
        waited = effect is not None
        if effect is None and (effect := self._entering.entered()) is None:
            return None
        if partition is None:
            partition, error = await self._choose(effect, topic, key)
            if error is not None:
                self._entering.withdraw(effect)
                return SendResult(error=error)
        way = self._partitions[topic, partition]
        record = (topic, key, value, partition, timestamp)
        return await self._append(way, effect, others, record, transactional_id, waited=waited)

    async def _choose(self, effect: Effect, topic: str, key: bytes | None) -> tuple[int, Exception | None]:
        """Choose the partition by the app's own partitioner, before stamping; return it, or the error that it
        raised."""
        client = self._producer._producer.client
        try:
            if client.cluster.partitions_for_topic(topic) is None:
                await client._wait_on_metadata(topic)
            return self._producer.key_partition(topic, key).partition, None
        except Exception as error:
            return -1, error
        except BaseException:
            self._entering.withdraw(effect)
            raise

    async def _append(
        self,
        way: PartitionState,
        effect: Effect,
        others: Headers,
        record: Record,
        transactional_id: str | None = None,
        *,
        waited: bool = False,
    ) -> SendResult:
        """Stamp and append under the partition's lock. `waited`: the record was in a buffer, so its writer does not
        see a failure here."""
        way.waiting += 1
        try:
            async with way.lock:
                effect, seq = await self._stamped(way, effect, others, record, transactional_id)
                sent, seq = await self._send_stamped(way, effect, others, record, transactional_id, seq)
                if sent.error is None:
                    self._settling.sent(way, effect, seq, sent.future, transactional_id)
        except BaseException as error:  # also where its caller gives up while it waits here
            self._settling.not_sent(way.tp, effect, error, waited=waited)
            raise
        finally:
            way.waiting -= 1
        if sent.error is not None:
            self._settling.not_sent(way.tp, effect, sent.error, waited=waited)
            return sent
        try:  # it is in flight: what goes wrong now must not make its caller send it again
            self._host.do(self._machine.send_appended(effect))
        except Exception as error:
            self._host.stand_down("to record that a record is sent", error)
        return sent

    async def _stamped(
        self,
        way: PartitionState,
        effect: Effect,
        others: Headers,
        record: Record,
        transactional_id: str | None,
    ) -> tuple[Effect, int | None]:
        """Send whatever has to leave before a record, and return its effect and seq. None: it gets no stamp."""
        try:
            machine, tp = self._machine, way.tp
            while way.due and effect.epoch >= way.due[0].epoch:
                await self._markers.append(way)
            if self._in_transactions:
                await way.led_by(transactional_id)
            if machine.process is None and not await self._waiting.for_identity():
                return (
                    effect,
                    None,
                )  # declared dead while this waited: it leaves as in `send`, and counts for nothing
            if effect.sent is not machine.colours.sent:  # it entered in an earlier life
                self._entering.withdraw(effect)
                effect = machine.send_entered_again(effect)
            if not self._unstamped.expected(tp.topic, record[1], record[2], others):
                return effect, machine.send_stamped(effect, tp)
        except Exception as error:
            self._host.stand_down("to stamp a record", error)
        return effect, None

    async def _send_stamped(
        self,
        way: PartitionState,
        effect: Effect,
        others: Headers,
        record: Record,
        transactional_id: str | None,
        seq: int | None,
    ) -> tuple[SendResult, int | None]:
        """Append the record with its stamp; without one where it has none, or is too large with it."""
        headers = [*others]
        if seq is not None:
            try:
                headers.append((wire.HEADER, self._stamps.of(way.check, effect, seq)))
            except Exception as error:
                self._host.stand_down("to stamp a record", error)
                seq = None
        if seq is not None:
            try:
                sent = self._send(*record, headers=headers, transactional_id=transactional_id)
                return SendResult(await sent), seq
            except BaseException as error:
                with self._host.failing_open("to record a send that failed", for_good=True):
                    self._machine.send_unstamped(effect, way.tp, seq)
                if not isinstance(error, Exception):
                    raise
                if not is_too_large(error):
                    return SendResult(error=error), None
        try:
            sent = self._send(*record, headers=others or None, transactional_id=transactional_id)
            return SendResult(await sent), None
        except Exception as error:
            return SendResult(error=error), None
