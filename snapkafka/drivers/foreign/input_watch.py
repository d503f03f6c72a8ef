"""The watch over the inputs of a foreign process: one that changes ends the session, and the process joins again.

It checks every few seconds, and whenever the process hands over its state. A sender that has left names in no `Closed`
where it has sent, so all partitions must be known before a cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from snapkafka.errors import BrokerUnavailableError, SnapkafkaError
from snapkafka.protocol.records import InputTopic

from .assignment import Starts


class InputWatch:
    """The watch over the inputs of one process.

    Args:
        node: the name of the process.
        every_s: time between two checks.
        lost: called with the reason why the process no longer has all of its inputs.
    """

    def __init__(self, admin: Any, node: str, *, every_s: float, lost: Callable[[str], None]) -> None:
        self._admin, self._node, self._every_s, self._lost = admin, node, every_s, lost
        self._known: dict[str, InputTopic] = {}
        self._missing: frozenset[str] = frozenset()  # by the latest check

    def start(self, starts: Starts) -> None:
        """Take these inputs as the known ones."""
        self._known = {found.topic: found for found in starts.topics}

    async def follow(self) -> None:
        """Check again and again; a topic that two checks in a row have missed was deleted."""
        while self._known:
            await asyncio.sleep(self._every_s)
            before = self._missing
            with contextlib.suppress(SnapkafkaError):  # the next check makes up for it
                await self.look()
            if gone := before & self._missing:
                self._lost(f"its input {min(gone)} was deleted")

    async def look(self) -> None:
        """Check now.

        Raises:
            BrokerUnavailableError: an input is absent; call again.
            SnapkafkaError: Kafka cannot be used.
        """
        if not self._known:
            return
        described = await self._admin.describe_topics(list(self._known))
        self._missing = frozenset(self._known.keys() - described.keys())
        for name, found in sorted(described.items()):
            if found.topic_id != self._known[name].topic_id:
                self._lost(f"its input {name} was recreated")
            elif found.partitions > self._known[name].partitions:
                self._lost(f"its input {name} has new partitions")
        if self._missing:
            raise BrokerUnavailableError(
                f"input {min(self._missing)} of {self._node} is not known to the broker",
                hint="call it again; if the topic was deleted, the process leaves in a moment",
            )
