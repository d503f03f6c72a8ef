"""The watch over the inputs of a foreign process: it finds added partitions and recreated topics.

It checks every few seconds, and whenever the process hands over its state. A sender that has left names in no `Closed`
where it has sent, so the partitions must be known before a cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from snapkafka.errors import BadInputError, BrokerUnavailableError, SnapkafkaError
from snapkafka.protocol.records import TopicPartition

from .assignment import Starts, committed


class InputWatch:
    """The watch over the inputs of one process.

    Args:
        node: the name of the process, and of its group.
        every_s: time between two checks.
        added: called with new partitions and the offsets at which they start.
        lost: called with the reason why the inputs can no longer be read.
    """

    def __init__(
        self,
        admin: Any,
        node: str,
        *,
        every_s: float,
        added: Callable[[Mapping[TopicPartition, int]], None],
        lost: Callable[[str], None],
    ) -> None:
        self._admin, self._node, self._every_s = admin, node, every_s
        self._added, self._lost = added, lost
        self._ids: dict[str, str] = {}
        self._known: set[TopicPartition] = set()
        self._missing: frozenset[str] = frozenset()  # by the latest look

    def start(self, starts: Starts) -> None:
        """Take these inputs as the known ones."""
        self._ids = {found.topic: found.topic_id for found in starts.topics}
        self._known = set(starts.positions)

    async def follow(self) -> None:
        """Check again and again; a topic that two checks in a row have missed was deleted."""
        while self._ids:
            await asyncio.sleep(self._every_s)
            before = self._missing
            with contextlib.suppress(SnapkafkaError):  # the next look makes up for it
                await self.look()
            if gone := before & self._missing:
                self._lost(f"its input {min(gone)} was deleted")

    async def look(self) -> None:
        """Check now.

        Raises:
            BrokerUnavailableError: an input is absent; call again.
            SnapkafkaError: Kafka cannot be used.
        """
        if not self._ids:
            return
        described = await self._admin.describe_topics(list(self._ids))
        self._missing = frozenset(self._ids.keys() - described.keys())
        if recreated := [name for name, found in described.items() if found.topic_id != self._ids[name]]:
            self._lost(f"its input {min(recreated)} was recreated")
            return
        tps = {
            TopicPartition(name, number)
            for name, found in described.items()
            for number in range(found.partitions)
        }
        if new := tps - self._known:
            try:
                at = await committed(self._admin, self._node, new, self._ids)
            except BadInputError as error:
                self._lost(error.message)
                return
            added = {
                tp: at.get(tp, 0) for tp in sorted(new - self._known)
            }  # another check may have been faster
            self._known |= new
            if added:
                self._added(added)
        if self._missing:
            raise BrokerUnavailableError(
                f"input {min(self._missing)} of {self._node} is not known to the broker",
                hint="call it again; if the topic was deleted, the process leaves in a moment",
            )
