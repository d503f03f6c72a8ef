"""The foreign processes of one instance of the service. A stream is a process: when it ends, the process leaves, and
joins again as another one."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from snapkafka.drivers.remote.inputs import Input
from snapkafka.drivers.remote.participant import Participant
from snapkafka.drivers.remote.settings import CODECS, Left, Marker, require_node
from snapkafka.errors import BadInputError, TriggerRefusedError

from .problems import RefusedError

logger = logging.getLogger("snapkafka")

SESSION_BYTES: Final = 16
#: The metadata of a call that holds the session of its process.
SESSION_KEY: Final = "snapkafka-session"


class Session:
    """A process that has joined. Its other calls name the session."""

    def __init__(self, participant: Participant) -> None:
        self.participant, self.name = participant, secrets.token_hex(SESSION_BYTES)

    async def notices(self) -> AsyncIterator[Marker | Left]:
        """Yield the notices for the process, until it has left."""
        while not isinstance(notice := await self.participant.notices.get(), Left):
            yield notice
        yield notice


class Doors:
    """The foreign processes of this instance.

    Args:
        make: creates a participant for a node with a codec and a host, not joined yet.
        most: the limit of processes.
    """

    def __init__(self, make: Callable[[str, str, str], Participant], *, most: int) -> None:
        self._make, self._most = make, most
        self._sessions: dict[str, Session] = {}
        self._joining: set[str] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(self, node: str, codec: str, host: str, inputs: Sequence[Input] = ()) -> Session:
        """Let a process take part; an earlier one of its name leaves.

        Raises:
            RefusedError: the limit is reached, or another one of its name is joining.
            SnapkafkaError: it cannot take part.
        """
        require_node(node)
        if (codec or CODECS[0]) not in CODECS:
            raise BadInputError(f"codec {codec[:20]!r} is unknown", hint=f"use {' or '.join(CODECS)}")
        if node in self._joining or len(self._sessions.keys() | self._joining | {node}) > self._most:
            why = f"node {node[:40]!r} is joining, or {self._most} foreign processes take part"
            raise RefusedError("busy", why, "try again later")
        self._joining.add(node)
        try:
            if (known := self._sessions.get(node)) is not None:
                await self._end(known, "another process joined by its node_id")
            participant = self._make(node, codec or CODECS[0], host)
            try:
                await participant.join(inputs)
            except BaseException:
                await participant.leave("it could not join")
                raise
            self._sessions[node] = found = Session(participant)
        finally:
            self._joining.discard(node)
        logger.info("snapkafka: foreign process %s joined as process %s", node, participant.process)
        return found

    def of(self, node: str, session: str) -> Participant:
        """Return the participant of a process that has joined, if the caller knows its session.

        Raises:
            TriggerRefusedError: it has not joined, or has left.
            RefusedError: the session is another one: that of an earlier process of this name, or of none.
        """
        found = self._sessions.get(node)
        if found is None:
            raise TriggerRefusedError(
                f"node {node[:40]!r} has not joined here", hint="call Join, and keep its stream open"
            )
        if not hmac.compare_digest(found.name.encode(), session.encode()):
            raise RefusedError(
                "forbidden",
                f"this is not the session of node {node[:40]!r}",
                f"send the session that Join returned, as metadata {SESSION_KEY}",
            )
        return found.participant

    def stream_ended(self, session: Session) -> None:
        """Let the process of a stream leave, unless it has. Nothing is awaited: gRPC cancels what reads the stream."""
        if self._sessions.get(session.participant.node) is session:
            task = asyncio.ensure_future(self._end(session, "its connection was lost"))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _end(self, session: Session, reason: str) -> None:
        node = session.participant.node
        if self._sessions.get(node) is session:
            del self._sessions[node]
        logger.info("snapkafka: foreign process %s left: %s", node, session.participant.left or reason)
        await session.participant.leave(reason)

    async def close(self) -> None:
        """Let every process leave: the service stops."""
        ending = [self._end(session, "the service stops") for session in self._sessions.values()]
        await asyncio.gather(*ending, *self._leaving, return_exceptions=True)
