"""Write down the state of a foreign process, piece by piece, in the topic of its own: white sends of the process."""

from __future__ import annotations

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import TopicPartition

from .producer import Sending, Writer
from .settings import Bounds, key_of

__all__ = ["State"]


class State:
    """Hold which pieces stand in the topic.

    Args:
        node: the name of the process.
        tp: where the state lies.
    """

    def __init__(
        self, node: str, tp: TopicPartition, *, writer: Writer, sending: Sending, bounds: Bounds
    ) -> None:
        self._node, self._tp, self._writer, self._sending, self._bounds = node, tp, writer, sending, bounds
        self._standing: set[bytes] = set()  # keys whose last record is no tombstone

    async def open(self) -> None:
        """Read which pieces stand there from before.

        Raises:
            SnapkafkaError: the topic cannot be read.
        """
        self._standing = await self._writer.standing_keys(self._tp)

    async def give(self, given: dict[bytes, int], channel: str, chunk: int, data: bytes) -> None:
        """Append a piece of the state; given again, it replaces itself.

        Args:
            given: the pieces of this state so far, key -> bytes; this one is added.
            channel: whose messages were in flight to the process; empty: its own state.

        Raises:
            BadInputError: it is above a bound.
            BrokerUnavailableError: give it again.
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
        """Delete every piece that is not one of this state.

        Raises:
            BrokerUnavailableError: call it again.
        """
        for key in sorted(self._standing - given.keys()):
            await self._sending.append(self._tp, key, None)
            self._standing.discard(key)
