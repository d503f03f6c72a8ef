"""The changes of a table by a loop with aiokafka: it changes at once, and they are sent when their event ends, in their
order and colour."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapkafka.errors import BadInputError
from snapkafka.protocol.colours import Effect
from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ..sends import Sends
    from .running_events import Events, Run


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the table that has its colour, and is not sent yet."""

    run: Run | None
    effect: Effect | None
    tp: TopicPartition
    key: bytes
    value: bytes | None


class Changes:
    """The changes that wait.

    Args:
        producer: aiokafka's; it stamps.
    """

    def __init__(self, producer: Any, *, sends: Sends, events: Events) -> None:
        self._producer, self._sends, self._events = producer, sends, events
        self._waiting: deque[Change] = deque()
        self._sending = asyncio.Lock()

    def add(self, tp: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Note a change, in the colour of the event that runs here."""
        self._waiting.append(Change(self._events.here(), self._sends.enter(), tp, key, value))

    def forget(self) -> None:
        """Withdraw the changes that wait: their partitions are revoked, and their changelogs another member's."""
        while self._waiting:
            change = self._waiting.popleft()
            if change.run is not None:
                change.run.withdrawn = True
            if change.effect is not None:
                self._sends.withdraw(change.effect)

    async def send(self) -> None:
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
        async with self._sending:
            while self._waiting:
                change = self._waiting.popleft()
                topic, partition = change.tp
                with self._sends.entered(change.effect):
                    await self._producer.send(topic, change.value, change.key, partition)
