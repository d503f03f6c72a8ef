"""The remote processes of one instance of the service. A stream is a process: when it ends, the process leaves, and
joins again as another one."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from snapkafka.drivers.remote.inputs import CODECS, Input, require_node
from snapkafka.drivers.remote.participant import Participant
from snapkafka.errors import BadInputError, TriggerRefusedError

from .problems import RefusedError

logger = logging.getLogger("snapkafka")

SESSION_BYTES: Final = 16
#: The metadata of a call that holds the session of its process.
SESSION_KEY: Final = "snapkafka-session"


class Doors:
    """The remote processes of this instance.

    Args:
        make: creates a participant for a node with a codec and a host, not joined yet.
        most: the limit of processes.
    """

    def __init__(self, make: Callable[[str, str, str], Participant], *, most: int) -> None:
        self._make, self._most = make, most
        self._sessions: dict[str, tuple[str, Participant]] = {}  # by node
        self._joining: set[str] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(
        self, node: str, codec: str, host: str, inputs: Sequence[Input] = ()
    ) -> tuple[str, Participant]:
        """Let a process take part, and return its session; an earlier one of its name leaves.

        Raises:
            RefusedError: the limit is reached, or another one of its name is joining.
            SnapkafkaError: it cannot take part.
        """
        require_node(node)
        if (codec or CODECS[0]) not in CODECS:
            raise BadInputError(f"codec {codec[:20]!r} is unknown", hint=f"use {' or '.join(CODECS)}")
        if node in self._joining or len(self._sessions.keys() | self._joining | {node}) > self._most:
            why = f"node {node[:40]!r} is joining, or {self._most} remote processes take part"
            raise RefusedError("busy", why, "try again later")
        self._joining.add(node)
        try:
            if node in self._sessions:
                await self._end(node, "another process joined by its node_id")
            participant = self._make(node, codec or CODECS[0], host)
            try:
                await participant.join(inputs)
            except BaseException:
                await participant.leave("it could not join")
                raise
            self._sessions[node] = found = secrets.token_hex(SESSION_BYTES), participant
        finally:
            self._joining.discard(node)
        logger.info("snapkafka: remote process %s joined as process %s", node, participant.process)
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
        if not hmac.compare_digest(found[0].encode(), session.encode()):
            raise RefusedError(
                "forbidden",
                f"this is not the session of node {node[:40]!r}",
                f"send the session that Join returned, as metadata {SESSION_KEY}",
            )
        return found[1]

    def stream_ended(self, node: str, session: str) -> None:
        """Let the process of a stream leave, unless it has. Nothing is awaited: gRPC cancels what reads the stream."""
        if self._sessions.get(node, ("",))[0] == session:
            task = asyncio.ensure_future(self._end(node, "its connection was lost"))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _end(self, node: str, reason: str) -> Coroutine[Any, Any, None]:
        """Forget a process at once, and return what lets it leave."""
        _, participant = self._sessions.pop(node)
        logger.info("snapkafka: remote process %s left: %s", node, participant.left or reason)
        return participant.leave(reason)

    async def close(self) -> None:
        """Let every process leave: the service stops."""
        ending = [self._end(node, "the service stops") for node in [*self._sessions]]
        await asyncio.gather(*ending, *self._leaving, return_exceptions=True)
