"""Connections, bounded where they are accepted: before a handshake, and within the limit of open files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Final

from .settings import Settings

logger = logging.getLogger("snapkafka")

#: So many connections above the bound are answered with a refusal; of those beyond, each is closed at once.
REFUSED_MAX: Final = 32
#: Files that are open for other purposes: Kafka, storage, queries, jobs.
OTHER_FILES: Final = 256
#: After an error a new connection is accepted so much later.
PAUSE_S: Final = 0.1
#: A kind of failure is logged once in so many seconds, with its number.
LOGGED_EVERY_S: Final = 60.0


class Use(Enum):
    """The use of a connection: its requests are served, or refused because there are too many connections."""

    SERVED = "served"
    REFUSED = "refused"


class Connections:
    """A counter of connections: at most `most` are served, and of one client at most half of them."""

    def __init__(self, most: int) -> None:
        self._most, self._of_one = most, max(1, most // 2)
        self._clients: Counter[str] = Counter()
        self._refused = 0

    def take(self, client: str) -> Place | None:
        """Count one more connection; None: there is no room for it at all."""
        if self._clients.total() < self._most and self._clients[client] < self._of_one:
            self._clients[client] += 1
            return Place(self, client, Use.SERVED)
        if self._refused < REFUSED_MAX:
            self._refused += 1
            return Place(self, client, Use.REFUSED)
        return None

    def release(self, client: str, use: Use) -> None:
        """Count one connection less."""
        if use is Use.REFUSED:
            self._refused -= 1
            return
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]


class Place:
    """A connection that is counted until `release`."""

    def __init__(self, connections: Connections, client: str, use: Use) -> None:
        self._connections, self._client, self.use = connections, client, use
        self._given = False

    def release(self) -> None:
        """Count it no more."""
        if not self._given:
            self._given = True
            self._connections.release(self._client, self.use)


class Repeated:
    """A log of failures that a client can cause at will: one line per kind and minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._count: Counter[str] = Counter()

    def report(self, kind: str, example: object) -> None:
        """Count a failure, and log it unless the last line about its kind is younger than a minute.

        Args:
            kind: one of few.
        """
        self._count[kind] += 1
        now = self._clock()
        if now - self._since.get(kind, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._since[kind] = now
            logger.warning("snapkafka: %s (%d since the last line): %s", kind, self._count.pop(kind), example)


class Acceptor:
    """The loop that accepts connections.

    Args:
        make: creates the protocol of a connection that has a place.
        handshake_s: the time limit of TLS.
    """

    def __init__(
        self,
        connections: Connections,
        make: Callable[[Place], asyncio.Protocol],
        *,
        context: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._connections, self._make = connections, make
        self._context, self._handshake_s = context, handshake_s
        self._failures = Repeated()
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, listening: socket.socket) -> None:
        """Accept connections of a socket that listens, until cancelled; then close it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    client, address = await loop.sock_accept(listening)
                except OSError as error:
                    self._failures.report("a connection cannot be accepted", error)
                    await asyncio.sleep(PAUSE_S)
                    continue
                place = self._connections.take(address[0])
                if place is None:
                    client.close()
                    self._failures.report("a connection above the bound was closed", address[0])
                    continue
                task = asyncio.create_task(self._open(client, place, address[0]))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
        finally:
            listening.close()
            for task in self._opening:
                task.cancel()

    async def _open(self, client: socket.socket, place: Place, address: str) -> None:
        """Shake hands, and hand over to the protocol."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(place),
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s if self._context else None,
            )
        except BaseException as error:  # whatever it is, the connection is counted no more
            place.release()
            with contextlib.suppress(OSError):
                client.close()
            if not isinstance(error, OSError):  # ssl.SSLError and TimeoutError are some
                raise
            self._failures.report("a TLS handshake failed", f"{address}: {error}")


def connections_within_limits(settings: Settings) -> int:
    """Raise the limit of open files as far as the connections need it; return how many it allows."""
    doors = 1 if settings.grpc_port is None else 2
    needed = doors * settings.connections_max + REFUSED_MAX + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return settings.connections_max
    most = max(1, (soft - REFUSED_MAX - OTHER_FILES) // doors)
    logger.warning(
        "snapkafka: connections_max is %d, not %d: only %d files may be open (ulimit -n)",
        most,
        settings.connections_max,
        soft,
    )
    return most
