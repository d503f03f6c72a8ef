"""Outgoing markers: in each partition one is sent before the first red record of this process (R7).

Each partition lists the markers that are due there. A sender that is about to append a red record sends them first,
under the lock of that partition; if there is none, a task sends them soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from snapkafka.protocol.events import MarkerFailed, MarkerSent
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .outcomes import outcome

if TYPE_CHECKING:
    from snapkafka.protocol.actions import SendMarkers
    from snapkafka.protocol.events import Event

    from .host import Host
    from .stamps import Stamps


class MarkedPartition:
    """The state of sending to one partition. `due`: markers that precede its next red record, by epoch, the lowest
    first; `waiting`: so many wait for the lock, or have it."""

    __slots__ = ("due", "lock", "tp", "waiting")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.lock = asyncio.Lock()
        self.due: list[SendMarkers] = []
        self.waiting = 0


class MarkedPartitions(dict[tuple[str, int], MarkedPartition]):
    """The state of sending to each partition, by topic and number."""

    def __missing__(self, tp: tuple[str, int]) -> MarkedPartition:
        way = self[tp] = MarkedPartition(TopicPartition(*tp))
        return way


class Markers:
    """The markers of one worker.

    Args:
        host: whose machine gives the markers seqs and is fed the results.
        partitions: the state of sending to each.
        send: the client's own, of a key and a header to a partition.
    """

    def __init__(
        self,
        host: Host,
        stamps: Stamps,
        partitions: Mapping[tuple[str, int], MarkedPartition],
        send: Callable[[TopicPartition, bytes, bytes], Awaitable[asyncio.Future[Any]]],
    ) -> None:
        self._host = host
        self._machine = host.machine
        self._stamps, self._partitions, self._send = stamps, partitions, send

    def due(self, action: SendMarkers) -> None:
        """Note that each partition gets its marker before its next red record, and soon in any case."""
        for tp in action.tps:
            self._partitions[tp].due.append(action)
        self._host.spawn(self._flush(action))

    async def _flush(self, action: SendMarkers) -> None:
        for tp in action.tps:
            way = self._partitions[tp]
            way.waiting += 1
            try:
                async with way.lock:
                    while way.due and way.due[0].epoch <= action.epoch:
                        await self.append(way)
            finally:
                way.waiting -= 1

    async def append(self, way: MarkedPartition) -> None:
        """Send the first marker that is due, under the lock. If the task is cancelled meanwhile, it stays due."""
        machine, tp, action = self._machine, way.tp, way.due[0]
        if machine.process is not None and not self._host.absent:
            seq = machine.marker_stamped(tp)
            body, key = self._stamps.marker(tp, action, seq), wire.marker_key(machine.process)
            answer = self._host.answering()
            try:
                future = await self._send(tp, key, body)
            except BaseException as error:
                machine.marker_unstamped(tp, seq)
                if not isinstance(error, Exception):
                    raise
                self._host.feed(MarkerFailed(epoch=action.epoch, tp=tp, reason=repr(error)))
            else:
                future.add_done_callback(partial(_acked, self._host, answer, tp, action.epoch, seq))
        way.due.pop(0)


def _acked(
    host: Host,
    answer: Callable[[Event], None],
    tp: TopicPartition,
    epoch: int,
    seq: int,
    future: asyncio.Future[Any],
) -> None:
    try:
        offset, failure = outcome(future)
        if failure is not None:
            answer(MarkerFailed(epoch=epoch, tp=tp, reason=failure.reason, seq=seq))
        else:
            answer(MarkerSent(epoch=epoch, tp=tp, offset=offset))
    except Exception as error:
        host.stand_down("to record what became of a marker", error)
