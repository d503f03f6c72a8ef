"""The sends of a foreign process: enter, stamp, append, settle (R5, R7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

from snapkafka.errors import BrokerUnavailableError, TriggerRefusedError
from snapkafka.kafka.records.writer import UnsettledError
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from ..host import Host


class Writer(Protocol):
    """The destination of the records (`kafka.records.writer.KafkaWriter`)."""

    async def partition_of(self, topic: str, key: bytes | None) -> int: ...

    async def append(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes
    ) -> Awaitable[int]: ...

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]: ...


class ForeignSends:
    """The sending side of one process.

    Args:
        node: the name of the process.
    """

    def __init__(self, host: Host, writer: Writer, *, node: str) -> None:
        self._machine, self._writer, self._do = host.machine, writer, host.do
        self._node, self._stamps = node, host.stamps
        self._locks: dict[TopicPartition, asyncio.Lock] = {}

    async def append(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, cause: Cause | None = None
    ) -> int:
        """Append a record in the colour of the event that causes it, or of the process.

        Returns:
            its offset.

        Raises:
            TriggerRefusedError: the process has no id any more.
            BrokerUnavailableError: whether it is in the log is unknown.
        """
        machine = self._machine
        if machine.process is None:
            raise TriggerRefusedError(f"{self._node} no longer takes part", hint="join again")
        effect = machine.send_entered(cause)
        lock = self._locks.setdefault(tp, asyncio.Lock())
        try:
            await lock.acquire()
        except BaseException:
            self._do(machine.send_withdrawn(effect))
            raise
        try:
            seq = machine.send_stamped(effect, tp)
            header = self._stamps.of(wire.tp_check(*tp), effect, seq)
            # Not cancelled with its caller: what may be in the log has to be settled.
            appended = await asyncio.shield(self._appended(tp, key, value, header, effect, seq))
        finally:
            lock.release()
        return await asyncio.shield(self._settled(appended, tp, effect, seq))

    async def _appended(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes, effect: Any, seq: int
    ) -> Awaitable[int]:
        try:
            appended = await self._writer.append(tp, key, value, header)
        except BaseException:
            self._machine.send_unstamped(effect, tp, seq)
            self._do(self._machine.send_withdrawn(effect))
            raise
        self._do(self._machine.send_appended(effect))
        return appended

    async def _settled(self, appended: Awaitable[int], tp: TopicPartition, effect: Any, seq: int) -> int:
        try:
            offset = await appended
        except UnsettledError as error:
            self._do(self._machine.settled(effect, tp, seq, SendOutcome.UNKNOWN, reason=str(error)))
            raise BrokerUnavailableError(f"whether a record is in {tp} is unknown: {error}") from error
        self._do(self._machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=offset))
        return offset
