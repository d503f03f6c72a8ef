"""A held consumer group: no worker can join it, and only its holder can set its offsets.

One member with a protocol of its own name joins the empty group and sends heartbeats. As long as its session lasts the
broker refuses every other member (`INCONSISTENT_GROUP_PROTOCOL`), whether or not it knows of snapkafka, and takes
offsets from this member and this generation alone. So a hold is three things at once:

* a fence: no worker reads the inputs while their content is changed;
* a lease with heartbeats: of two runs of a plan only one has it, and it passes on when its holder is dead or
  suspended;
* a fenced commit: if a holder was suspended, and others have held or read the group since, the broker refuses its
  commit, without any clock.

aiokafka's consumer is no such member (0.14, tried on a broker): once it is evicted its generation is -1 and it commits
as nobody, which a broker takes for an empty group.

Source: KIP-62 (sessions and heartbeats) and the generations of Kafka's group protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import errors
from aiokafka.client import AIOKafkaClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from snapkafka.errors import OvertakenError
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition

from .broker_errors import PASSING, ask_patiently
from .requests import Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup

#: The client id of a member that holds a group, by which others distinguish it from a worker.
HOLDER: Final = "snapkafka-restore"
#: A holder that is silent for so long has lost the group. A broker allows 6 s to 30 min by default.
SESSION_S: Final = 30.0
BEAT_EVERY_S: Final = 3.0
#: What the broker waits for other members of a new group is its `group.initial.rebalance.delay.ms`: 3 s by default.
REBALANCE_MS: Final = 10_000
#: A subscription to nothing, in the form that all of Kafka's tools read: version, topics, user data.
NOTHING: Final = ConsumerProtocolMemberMetadata(0, [], b"").encode()
_LOST: Final = (
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
    errors.InconsistentGroupProtocolError,
)


class GroupTakenError(Exception):
    """A group that has members."""


class GroupHold:
    """The hold of one consumer group.

    Args:
        connection: the cluster.
        group: its name.
        session_s: how long a holder may be silent before it loses the group.
    """

    def __init__(self, connection: Connection, group: str, *, session_s: float = SESSION_S) -> None:
        self.group = group
        self._connection = connection
        self._session_s = session_s
        self._client: Any = None
        self._coordinator: Any = None
        self._member, self._generation = "", -1
        self._until = 0.0  # by the monotonic clock: the broker keeps us at least so long
        self._lost = ""
        self._beating: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Join the group as its only member.

        Raises:
            GroupTakenError: it has members.
            BrokerUnavailableError, LedgerUnusableError: the broker does not answer, or a right is missing.
        """
        settings = self._connection.client_settings() | {"client_id": HOLDER}
        settings["request_timeout_ms"] = max(settings["request_timeout_ms"], 2 * REBALANCE_MS)
        self._lost = self._member = ""
        self._client = AIOKafkaClient(**settings)
        protocol = f"{HOLDER}-{random.getrandbits(64):016x}"  # that of no other member, so nobody joins
        try:
            async with translated(self._connection, f"hold consumer group {self.group}"):
                await self._client.bootstrap()
                sent = time.monotonic()
                await self._join(protocol)
        except BaseException:
            await self.release()
            raise
        self._until = sent + self._session_s
        self._beating = asyncio.create_task(self._beat())

    async def _join(self, protocol: str) -> None:
        session_ms = round(self._session_s * 1_000)
        wanted = (self.group, session_ms, REBALANCE_MS, "", "consumer", [(protocol, NOTHING)])
        try:
            joined = await self._ask(lambda: JoinGroup(*wanted))
        except errors.InconsistentGroupProtocolError:
            raise GroupTakenError(self.group) from None
        self._member, self._generation = joined.member_id, joined.generation_id
        await self._ask(lambda: SyncGroup(self.group, self._generation, self._member, []))

    @property
    def left_s(self) -> float:
        """For how many seconds the broker still keeps this member, whatever happens; 0 or less: perhaps no longer."""
        return -1.0 if self._lost else self._until - time.monotonic()

    def require(self) -> None:
        """Check that the group is still held. May be called in any thread.

        Raises:
            OvertakenError: it may be lost.
        """
        if self.left_s <= 0:
            raise self._lost_error(self._lost or f"no heartbeat for {self._session_s:g} s")

    async def commit(self, positions: Mapping[TopicPartition, int], note: str) -> None:
        """Set offsets of the group, as its member: the broker refuses them once the hold has passed on.

        Raises:
            OvertakenError: the hold has passed on; nothing was set.
            LedgerUnusableError: a right is missing.
        """
        by_topic: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for tp, offset in sorted(positions.items()):
            by_topic[tp.topic].append((tp.partition, offset, note))
        self.require()
        wanted = (self.group, self._generation, self._member, -1, list(by_topic.items()))
        with translated(self._connection, f"set the offsets of group {self.group}"):
            try:
                await self._ask(lambda: OffsetCommit(*wanted))
            except _LOST as error:
                raise self._lost_error(type(error).__name__) from error

    async def release(self) -> None:
        """Leave the group; if that fails, its session ends by itself."""
        if self._beating is not None:
            self._beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None
        if self._client is None:
            return
        with contextlib.suppress(Exception):
            if self._member and not self._lost:
                await asyncio.wait_for(self._ask(lambda: LeaveGroup(self.group, self._member)), 5.0)
        self._lost = self._lost or "it was released"
        client, self._client = self._client, None
        await client.close()

    # -- requests ---------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(min(BEAT_EVERY_S, self._session_s / 3))
            sent = time.monotonic()
            try:
                await self._ask(lambda: Heartbeat(self.group, self._generation, self._member))
            except _LOST as error:
                self._lost = type(error).__name__
                return
            except errors.KafkaError:
                continue  # the broker is away: the session goes on as long as it lasts
            self._until = sent + self._session_s

    async def _ask(self, request: Callable[[], Any]) -> Any:
        """Send a request to the group's coordinator, and again while the coordinator moves."""

        async def once() -> Any:
            try:
                if self._coordinator is None:
                    self._coordinator = await self._client.coordinator_lookup(0, self.group)
                response = await self._client.send(self._coordinator, request(), group=1)
                topics = getattr(response, "topics", None)
                codes = (
                    [response.error_code]
                    if topics is None
                    else [it[1] for _, parts in topics for it in parts]
                )
                for code in filter(None, codes):
                    raise errors.for_code(code)(self.group)
                return response
            except PASSING:
                self._coordinator = None
                raise

        return await ask_patiently(once)

    def _lost_error(self, why: str) -> OvertakenError:
        return OvertakenError(
            f"this run no longer holds consumer group {self.group} ({why}): another run or a worker may have it",
            hint="nothing more was changed; run the same command again: it finishes the rest, if any is left",
        )
