"""The state of a foreign process, stored piece by piece in a topic of its own, as white sends of the process."""

from __future__ import annotations

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import TopicPartition

from .producer import ForeignSends, Writer
from .settings import Bounds, key_of


class State:
    """The pieces that are stored in the topic.

    Args:
        node: the name of the process.
        tp: the partition that holds the state.
    """

    def __init__(
        self, node: str, tp: TopicPartition, *, writer: Writer, sending: ForeignSends, bounds: Bounds
    ) -> None:
        self._node, self._tp, self._writer, self._sending, self._bounds = node, tp, writer, sending, bounds
        self._standing: set[bytes] = set()  # keys whose last record is no tombstone

    async def open(self) -> None:
        """Read which pieces an earlier process has left there.

        Raises:
            SnapkafkaError: the topic cannot be read.
        """
        self._standing = await self._writer.standing_keys(self._tp)

    async def give(self, given: dict[bytes, int], channel: str, chunk: int, data: bytes) -> None:
        """Append a piece of the state; a second piece of the same number replaces the first.

        Args:
            given: the pieces of this state so far, key -> size in bytes; this one is added.
            channel: the sender whose messages were in flight to the process; empty: its own state.

        Raises:
            BadInputError: the piece is above a bound.
            BrokerUnavailableError: unknown whether it is stored; send it again.
        """
        key, most = key_of(channel, chunk), self._bounds
        others = {k: size for k, size in given.items() if k != key}
        if sum(others.values()) + len(data) > most.state_bytes_max or len(others) >= most.chunks_max:
            raise BadInputError(
                f"the state of {self._node} is above {most.state_bytes_max:,} bytes or {most.chunks_max:,} chunks",
                hint="keep what is large elsewhere, and give a reference to it",
            )
        given[key] = len(data)
        self._standing.add(key)
        try:
            await self._sending.append(self._tp, key, data)
        except BaseException:
            given.pop(key, None)  # if it is not given again, whatever stands there is deleted by `keep`
            raise

    async def keep(self, given: dict[bytes, int]) -> None:
        """Delete every piece that does not belong to this state.

        Raises:
            BrokerUnavailableError: call it again.
        """
        for key in sorted(self._standing - given.keys()):
            await self._sending.append(self._tp, key, None)
            self._standing.discard(key)
