"""The incoming records of a Faust app: each passes here before any agent, reply consumer or table sees it.

`app.topics._build_handler` makes one callback per partition, with or without Cython; ours wraps it. It removes our
header, takes markers out (acknowledged, never decoded, handed to the recorder), and holds a record of a higher epoch
than ours until the machine has decided (R2). If a rebalance cancels the callback meanwhile, the record comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from snapkafka.protocol import MarkerMet, RecordMet, TopicPartition
from snapkafka.wire import headers as wire

from ...gate import ended_by

if TYPE_CHECKING:
    from ..driver import FaustDriver

Callback = Callable[[Any], Awaitable[Any]]
ARRIVES: Final = "to record what arrives"


class IncomingRecords:
    """The path of incoming records. `conductor`: Faust's `app.topics`; its `_build_handler` is patched."""

    def __init__(self, driver: FaustDriver, conductor: Any) -> None:
        self.driver = driver
        self.build_plain: Callable[[Any, Any], Callback] = conductor._build_handler
        conductor._build_handler = self.build

    def build(self, tp: Any, channels: Any) -> Callback:
        """Replace `Conductor._build_handler`: return the callback for one partition."""
        take_in = self.build_plain(tp, channels)
        partition = self.driver.note("to patch an input", _Partition, self, tp, channels, take_in)
        return partial(self.plainly, take_in) if partition is None else partition.on_message

    def plainly(self, take_in: Callback, message: Any) -> Awaitable[Any]:
        """Take in a record after a fault of ours, by nothing that may have failed: a marker goes to no agent, and no
        agent sees our header."""
        key, headers = message.key, message.headers
        if message.value is None and isinstance(key, bytes) and key.startswith(b"_sk:"):
            return self.take_out(message)
        if headers:
            pairs = headers.items() if hasattr(headers, "items") else headers
            rest = [pair for pair in pairs if pair[0] != "_sk"]
            message.headers = rest if type(headers) is list else type(headers)(rest)
        return take_in(message)

    async def take_out(self, message: Any) -> None:
        """Acknowledge a record that no agent gets, together with the records before it, no sooner: Faust takes an
        acknowledged message with one unacknowledged predecessor for a sign that the predecessor is done."""
        consumer = self.driver.app.consumer
        try:
            if any(waiting.tp == message.tp for waiting in consumer._unacked_messages):
                gaps = consumer._gap[message.tp]  # as it does with offsets at which there is no record
                gaps.addi(message.offset, message.offset + 1)
                gaps.merge_overlaps(strict=False)
            else:
                consumer.ack(message)
        except Exception as error:
            self.driver.stand_down("to take a record from a queue", error)
            consumer.ack(message)

    async def take_marker(self, message: Any, tp: TopicPartition, stamp: wire.Stamp) -> None:
        """Hand a marker to the recorder, never to a decoder."""
        try:
            self.driver.metrics.count("markers")
            await self.driver.follower.meet(MarkerMet(epoch=stamp.epoch))
            await self.take_out(message)
            self.driver.recorder.take(ended_by(stamp, tp, message.offset))
        except Exception as error:
            self.driver.stand_down("to record a marker", error)


class _Partition:
    """The records of one partition.

    Args:
        incoming: all incoming records.
        channels: of Faust, that read the partition.
        take_in: Faust's own callback.
    """

    def __init__(self, incoming: IncomingRecords, tp: Any, channels: Any, take_in: Callback) -> None:
        self._incoming, self._faust_tp, self._channels, self._take_in = incoming, tp, channels, take_in
        self._tp = TopicPartition(tp.topic, tp.partition)
        self._check = wire.tp_check(tp.topic, tp.partition)
        driver = self._driver = incoming.driver
        self._restored, self._until = driver.restored, driver.restored.until(self._tp)
        self._replies = driver.events if tp.topic in driver.events.reply_topics else None
        self._tables = driver.tables if tp.topic in driver.tables.topics else None
        self._notifies = self._replies is not None or self._tables is not None
        self._to_some: dict[frozenset[str], Callback] = {}  # by the agents that skip

    def on_message(self, message: Any) -> Awaitable[Any]:
        """Take in a record. Faust's coroutine is wrapped in one of ours only if something has to be awaited first."""
        incoming = self._incoming
        try:
            raw = stamp = None
            if given := message.headers:
                raw, message.headers = wire.take_out(given)
            if raw is not None:
                stamp = wire.read(raw, self._driver.ledger_id, self._check)
                if stamp is None:
                    self._driver.metrics.count("ignored", "foreign-header")
                elif stamp.marker:
                    return incoming.take_marker(message, self._tp, stamp)
                elif self._restored.bases and self._driver.machine.ledger.is_void(
                    stamp.process, self._tp, message.offset
                ):
                    self._driver.metrics.count("ignored", "before-a-restore")
                    if self._tables is None:
                        return incoming.take_out(message)
                    self._tables.void(self._faust_tp, message.offset)  # recovery waits for this offset
                elif stamp.epoch > self._driver.machine.colours.epoch:
                    return self._red_comes_in(message, stamp, given)
            elif message.value is None and wire.is_marker_key(message.key):
                # One that lost its header carries no information, and a decoder would fail on it.
                self._driver.metrics.count("ignored", "foreign-header")
                return incoming.take_out(message)
            if self._notifies:
                self._notify_met(message, stamp)
            way = self._take_in if message.offset >= self._until else self._for_some(message)
        except Exception as error:
            self._driver.stand_down(ARRIVES, error)
            return incoming.plainly(self._take_in, message)
        return way(message)

    def _for_some(self, message: Any) -> Callback:
        """Return a callback that leaves out the agents that have processed the record before the snapshot."""
        rules = self._restored.rules(self._tp).items()
        skipping = frozenset(agent for agent, rule in rules if not rule.takes(message.offset))
        if skipping not in self._to_some:
            agents = self._driver.events.agents()
            left = {it for it in self._channels if agents.get(id(it.queue)) not in skipping}
            build = self._incoming.build_plain
            self._to_some[skipping] = build(self._faust_tp, left) if left else self._incoming.take_out
        return self._to_some[skipping]

    async def _red_comes_in(self, message: Any, stamp: wire.Stamp, given: Any) -> None:
        way = self._take_in
        try:
            met = RecordMet(epoch=stamp.epoch, may_wait=not self._notifies)
            if await self._driver.follower.meet(met):
                message.headers = given  # it comes here again
                self._driver.held.hold(self._faust_tp, message)
                return
            self._notify_met(message, stamp)
            if message.offset < self._until:
                way = self._for_some(message)
        except Exception as error:
            self._driver.stand_down(ARRIVES, error)
        await way(message)

    def _notify_met(self, message: Any, stamp: wire.Stamp | None) -> None:
        if stamp is not None and self._notifies:
            self._driver.machine.takes_from(stamp.process)
        if self._replies is not None:
            self._replies.reply_met(None if stamp is None else stamp.epoch)
        if self._tables is not None:
            self._tables.met(self._faust_tp, message.offset, stamp)
