"""The foreign processes of one instance of the service: those that have joined, their sessions, and those that lost
their stream."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from snapkafka.drivers.foreign.assignment import Input
from snapkafka.drivers.foreign.driver import Participant
from snapkafka.drivers.foreign.settings import CODECS, Left, Marker, require_node
from snapkafka.errors import BadInputError, TriggerRefusedError

from .problems import RefusedError

logger = logging.getLogger("snapkafka")

SESSION_BYTES: Final = 16
#: The metadata of a call that holds the session of its process.
SESSION_KEY: Final = "snapkafka-session"


class Session:
    """A process that has joined, and the stream of its notices; of two streams the later counts."""

    def __init__(self, participant: Participant) -> None:
        self.participant, self.name = participant, secrets.token_hex(SESSION_BYTES)
        self.streams = 0  # how many there were
        self.gone: asyncio.TimerHandle | None = None  # until the process is given up

    def opened(self) -> int:
        """Count one more stream, and return its number. It counts from its call on, even if nothing can be sent by it:
        its end is noted by this number."""
        self.streams += 1
        return self.streams

    async def notices(self, mine: int) -> AsyncIterator[Marker | Left]:
        """Yield the notices for the process by the stream of that number, until it has left or joins by another one."""
        queue = self.participant.notices
        if mine > 1:  # what an earlier stream was sent may have been lost
            while not queue.empty():
                queue.get_nowait()
            if self.participant.left:
                queue.put_nowait(Left(self.participant.left))
            elif (due := self.participant.due) is not None:
                queue.put_nowait(due)
        while self.streams == mine:
            notice = await queue.get()
            if self.streams != mine:
                queue.put_nowait(notice)  # it is for the later stream
                return
            yield notice
            if isinstance(notice, Left):
                return


class Doors:
    """The foreign processes of this instance.

    Args:
        make: creates a participant for a node with a codec and a host, not joined yet.
        most: the limit of processes.
        grace_s: how long a process that lost its stream may come back.
    """

    def __init__(self, make: Callable[[str, str, str], Participant], *, most: int, grace_s: float) -> None:
        self._make, self._most, self._grace_s = make, most, grace_s
        self._sessions: dict[str, Session] = {}
        self._joining: WeakValueDictionary[str, asyncio.Lock] = (
            WeakValueDictionary()
        )  # held by those that join
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(
        self, node: str, codec: str, session: str, host: str, inputs: Sequence[Input] = ()
    ) -> Session:
        """Let a process take part; or continue, by its session, with its inputs.

        Raises:
            RefusedError: the limit is reached.
            SnapkafkaError: it cannot take part.
        """
        require_node(node)
        if (codec or CODECS[0]) not in CODECS:
            raise BadInputError(f"codec {codec[:20]!r} is unknown", hint=f"use {' or '.join(CODECS)}")
        async with self._lock_of(node):
            known = self._sessions.get(node)
            if known is not None and session and hmac.compare_digest(known.name.encode(), session.encode()):
                self._stay(known)
                return known
            if known is not None:
                await self._end(node, known, "another process joined by its node_id")
            if len(self._sessions.keys() | self._joining.keys()) > self._most:
                raise RefusedError("busy", f"{self._most} foreign processes take part", "try again later")
            participant = self._make(node, codec or CODECS[0], host)
            try:
                await participant.join(inputs)
            except BaseException:
                await participant.leave("it could not join")
                raise
            self._sessions[node] = found = Session(participant)
            logger.info("snapkafka: foreign process %s joined as process %s", node, participant.process)
            return found

    def _lock_of(self, node: str) -> asyncio.Lock:
        """Return the lock of those that join by a name; it lasts as long as one of them holds it or waits."""
        lock = self._joining.get(node)
        if lock is None:
            self._joining[node] = lock = asyncio.Lock()
        return lock

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

    def stream_ended(self, session: Session, number: int) -> None:
        """Note that the stream of that number has ended; if it was the last one, the process has a while to come
        back."""
        node = session.participant.node
        if session.streams != number or self._sessions.get(node) is not session:
            return
        self._stay(session)
        wait_s = 0.0 if session.participant.left else self._grace_s
        session.gone = asyncio.get_running_loop().call_later(wait_s, self._give_up, node, session)

    def _stay(self, session: Session) -> None:
        if session.gone is not None:
            session.gone.cancel()
            session.gone = None

    def _give_up(self, node: str, session: Session) -> None:
        task = asyncio.ensure_future(self._end(node, session, "its connection was lost"))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _end(self, node: str, session: Session, reason: str) -> None:
        self._stay(session)
        if self._sessions.get(node) is session:
            del self._sessions[node]
        logger.info("snapkafka: foreign process %s left: %s", node, session.participant.left or reason)
        await session.participant.leave(reason)

    async def close(self) -> None:
        """Let every process leave: the service stops."""
        ending = [self._end(node, session, "the service stops") for node, session in self._sessions.items()]
        await asyncio.gather(*ending, *self._leaving, return_exceptions=True)
