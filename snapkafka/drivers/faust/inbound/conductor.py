"""The incoming records of a Faust app: each passes here before any agent, reply consumer or table sees it.

`app.topics._build_handler` makes one callback per partition, with or without Cython; ours wraps it. It removes our
header, takes markers out (acknowledged, never decoded, handed to the recorder), and holds a record of a higher epoch
than ours until the machine has decided (R2). A rebalance cancels the callback, so what has to be awaited is a task of
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.events import ChannelEnded, MarkerMet, RecordMet
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ..plain_headers import is_marker, without_ours

if TYPE_CHECKING:
    from ..host import Host
    from ..outbound.stamps import Stamps
    from ..own_headers import OwnHeaders
    from ..restores import Restored
    from ..tables.changelogs import Tables
    from ..waiting import Waiting
    from .replies import Replies
    from .running_events import Events

Callback = Callable[[Any], Awaitable[Any]]


class Incoming:
    """The path of incoming records.

    Args:
        host: whose machine decides what a header means.
        conductor: Faust's `app.topics`; its `_build_handler` is patched.
        record: called with the end of a channel.
    """

    def __init__(
        self,
        host: Host,
        conductor: Any,
        *,
        events: Events,
        replies: Replies,
        tables: Tables,
        restored: Restored,
        stamps: Stamps,
        own_headers: OwnHeaders,
        waiting: Waiting,
        record: Callable[[ChannelEnded], None],
    ) -> None:
        self._host = host
        self._machine = host.machine
        self._events, self._replies, self._tables, self._restored = events, replies, tables, restored
        self._stamps, self._own_headers, self._waiting = stamps, own_headers, waiting
        self._record = record
        self._build: Callable[[Any, Any], Callback] = conductor._build_handler
        conductor._build_handler = self.build

    def build(self, tp: Any, channels: Any) -> Callback:
        """Replace `Conductor._build_handler`: return the callback for one partition."""
        take_in = self._build(tp, channels)
        try:
            return self._on_message(tp, channels, take_in)
        except Exception as error:
            self._host.stand_down("to patch an input", error)
        return partial(self._plainly, take_in)

    def _on_message(self, tp: Any, channels: Any, take_in: Callback) -> Callback:
        place = TopicPartition(tp.topic, tp.partition)
        check = wire.tp_check(tp.topic, tp.partition)
        host, machine, stamps, restored = self._host, self._machine, self._stamps, self._restored
        replies = self._replies if tp.topic in self._replies.topics else None
        tables = self._tables if tp.topic in self._tables.topics else None
        listens = replies is not None or tables is not None
        scope = restored.scope(place)
        some: dict[frozenset[str], Callback] = {}  # by the agents that skip

        def on_message(message: Any) -> Awaitable[Any]:
            """Take in a record. Faust's coroutine is wrapped in one of ours only if something has to be awaited
            first."""
            try:
                raw = stamp = None
                if message.headers:
                    raw, message.headers = wire.take_out(message.headers)
                if raw is not None:
                    stamp = wire.read(raw, stamps.ledger_id, check)
                    if stamp is None:
                        host.metrics.foreign_headers += 1
                        self._own_headers.met(raw, f"records of {tp.topic} have")
                    elif stamp.marker:
                        return self._take_marker(message, place, stamp)
                    elif stamp.process < scope.author and restored.is_void(
                        stamp.process, place, message.offset
                    ):
                        if tables is None:
                            return self._take_out(message)
                        tables.void(tp, message.offset)  # recovery waits for this offset
                    elif stamp.epoch > machine.colours.epoch:
                        return red_comes_in(message, stamp)
                elif message.value is None and wire.is_marker_key(message.key):
                    return self._drop_marker(message)
                if listens:
                    notify_met(message, stamp)
                way = take_in if message.offset >= scope.until else to_some(message)
            except Exception as error:
                host.stand_down("to record what arrives", error)
                return self._plainly(take_in, message)
            return way(message)

        def to_some(message: Any) -> Callback:
            """Return a callback that leaves out the agents that have processed the record before the snapshot."""
            skipping = frozenset(scope.skipping(message.offset))
            if skipping not in some:
                left = _without(channels, skipping, self._events.agents())
                some[skipping] = self._build(tp, left) if left else self._take_out
            return some[skipping]

        async def red_comes_in(message: Any, stamp: wire.Stamp) -> None:
            way = take_in
            try:
                await asyncio.shield(host.spawn(self._meet(RecordMet(epoch=stamp.epoch))))
                notify_met(message, stamp)
                if message.offset < scope.until:
                    way = to_some(message)
            except Exception as error:
                host.stand_down("to record what arrives", error)
            await way(message)

        def notify_met(message: Any, stamp: wire.Stamp | None) -> None:
            if stamp is not None and replies is not None:
                replies.met(tp, message.offset, stamp.epoch)
            if tables is not None:
                tables.met(tp, message.offset, stamp)

        return on_message

    def _plainly(self, take_in: Callback, message: Any) -> Awaitable[Any]:
        """Take in a record after a fault of ours: a marker goes to no agent, and no agent sees our header."""
        if is_marker(message):
            return self._take_out(message)
        message.headers = without_ours(message.headers)
        return take_in(message)

    async def _take_out(self, message: Any) -> None:
        """Acknowledge a record that no agent gets."""
        try:
            _pass_over(self._host.app.consumer, message)
        except Exception as error:
            self._host.stand_down("to take a record from a queue", error)
            self._host.app.consumer.ack(message)

    async def _take_marker(self, message: Any, tp: TopicPartition, stamp: wire.Stamp) -> None:
        """Hand a marker to the recorder, never to a decoder."""
        try:
            await self._take_out(message)
            self._host.metrics.markers += 1
            await asyncio.shield(self._host.spawn(self._meet(MarkerMet(epoch=stamp.epoch))))
            self._record(
                ChannelEnded(
                    tp=tp,
                    offset=message.offset,
                    sender=stamp.process,
                    epoch=stamp.epoch,
                    previous=stamp.previous,
                )
            )
        except Exception as error:
            self._host.stand_down("to record a marker", error)

    async def _drop_marker(self, message: Any) -> None:
        """Drop a marker that lost its header: it carries no information, and a decoder would fail on it."""
        await self._take_out(message)
        with self._host.failing_open("to record a marker without a header", for_good=True):
            self._own_headers.lost(message.topic)

    async def _meet(self, event: RecordMet | MarkerMet) -> None:
        """Feed the machine; if it wants the ledger read first, do that and feed it again. If the ledger does not
        answer, the record is taken in all the same (R15), and the machine vouches for nothing meanwhile."""
        try:
            asked = self._host.feed(event)
            if asked is None or not await self._waiting.ledger_to(asked.offset):
                return
            if self._host.feed(event) is not None:
                self._host.metrics.disbelieved += 1  # the ledger holds no such trigger: forged or foreign
        except Exception as error:
            self._host.stand_down("to handle a record from after a cut", error)


def _without(channels: Any, skipping: Collection[str], agents: Mapping[int, str]) -> set[Any]:
    """Return the channels that no agent of `skipping` reads."""
    return {channel for channel in channels if agents.get(id(channel.queue)) not in skipping}


def _pass_over(consumer: Any, message: Any) -> None:
    """Acknowledge a marker together with the records before it, no sooner. Faust takes an acknowledged message with
    one unacknowledged predecessor for a sign that the predecessor is done."""
    if any(waiting.tp == message.tp for waiting in consumer._unacked_messages):
        gaps = consumer._gap[message.tp]  # as it does with offsets at which there is no record
        gaps.addi(message.offset, message.offset + 1)
        gaps.merge_overlaps(strict=False)
    else:
        consumer.ack(message)
