"""The state of sending, one object per partition: who waits there, which markers are due, and which sends are
unacknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from aiokafka.structs import TopicPartition as TheirTopicPartition

from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ...markers import MarkedPartition


class Run:
    """Consecutive records of one colour in one batch."""

    __slots__ = ("count", "effect", "first", "place")

    def __init__(self, effect: Effect, first: int, place: int) -> None:
        self.effect = effect  # of the first one: they are counted together
        self.first = first  # its seq
        self.place = place  # its place in the batch
        self.count = 1


class PartitionState(MarkedPartition):
    """The state of sending to one partition: who may append, which markers are due there, which sends are
    unacknowledged."""

    __slots__ = ("batch", "check", "latest", "pending", "runs", "theirs", "within")

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__(tp)
        self.theirs = TheirTopicPartition(*tp)
        self.batch: Any = None  # that the latest record went into, on the short way
        self.runs: list[Run] = []  # in it
        self.check = wire.tp_check(tp.topic, tp.partition)
        self.pending: deque[tuple[asyncio.Future[Any], Effect, int | None]] = deque()  # with their seqs
        self.latest: asyncio.Future[Any] | None = None  # what was appended last
        self.within: str | None = None  # the transaction of that, which has a producer of its own

    async def led_by(self, transactional_id: str | None) -> None:
        """Wait until this producer may append. Two producers keep no order in one partition: the records in flight of
        one arrive before the other appends."""
        if self.within != transactional_id and self.latest is not None and not self.latest.done():
            await asyncio.wait([self.latest])
        self.within = transactional_id


class Partitions(dict[tuple[str, int], PartitionState]):
    """The state of sending to each partition, by topic and number."""

    def __missing__(self, tp: tuple[str, int]) -> PartitionState:
        way = self[tp] = PartitionState(TopicPartition(*tp))
        return way
