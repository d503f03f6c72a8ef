"""The Kafka clients of a process that is a part of a fork, closed where their requests leave.

| client | |
|---|---|
| aiokafka | each request is checked in `AIOKafkaConnection.send` (`kafka.cluster.fork_requests`) |
| confluent-kafka | its requests leave in C, where nothing can be checked: no client of it is created |

In a drill the connections of aiokafka come through a door (`runtime.door`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from snapkafka.errors import ForkIsolationError
from snapkafka.kafka.cluster.fork_requests import require_of_fork
from snapkafka.protocol.forking import of_fork
from snapkafka.runtime import door

from ..patches import Patches

#: Any of these methods makes a type of confluent-kafka's C library a client.
CLIENT_METHODS: Final = ("list_topics", "produce", "subscribe", "poll")


class ForkPatches(Patches):
    """The patches of a process that is a part of a fork, and its check of names.

    Args:
        fork: its name.
    """

    def __init__(self, fork: str) -> None:
        super().__init__()
        self.fork = fork

    def check(self, what: str, topics: Iterable[str]) -> None:
        """Refuse topics that are not the fork's.

        Raises:
            ForkIsolationError: names the first one.
        """
        for topic in topics:
            if not of_fork(self.fork, topic):
                raise ForkIsolationError(f"topic {topic} is not of fork {self.fork}: refused to {what} it")


# -- aiokafka ---------------------------------------------------------------------------------------------------------


class _Checked:
    """A request that is checked in the form in which it will be encoded."""

    __slots__ = ("struct",)

    def __init__(self, struct: Any) -> None:
        self.struct = struct

    def prepare(self, versions: object) -> Any:
        return self.struct


def guard_requests(isolation: ForkPatches) -> None:
    """Refuse each request that names something of production; refuse topics as soon as a client is about to ask for
    them."""
    from aiokafka.client import AIOKafkaClient
    from aiokafka.conn import AIOKafkaConnection

    send = AIOKafkaConnection.send

    @functools.wraps(send)
    def checked(connection: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if connection._writer is None:  # it states that it is not connected
            return send(connection, request, *args, **kwargs)
        struct = request.prepare(connection._versions)
        require_of_fork(isolation.fork, struct)
        return send(connection, _Checked(struct), *args, **kwargs)

    isolation.put(AIOKafkaConnection, "send", checked)
    isolation.before(AIOKafkaClient, "add_topic", lambda client, topic: isolation.check("read", [topic]))
    isolation.before(AIOKafkaClient, "set_topics", lambda client, topics: isolation.check("read", topics))


class _ThroughDoor:
    """An event loop whose connections come through a door."""

    def __init__(self, loop: Any, path: str, fork: str) -> None:
        self._loop, self._path, self._fork = loop, path, fork

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Any, host: str, port: int, *, ssl: Any = None) -> Any:
        found = await self._loop.run_in_executor(None, door.connect, self._path, self._fork, host, port)
        name = host if ssl else None
        return await self._loop.create_connection(factory, sock=found, ssl=ssl, server_hostname=name)


def lead_through_door(isolation: ForkPatches, path: str) -> None:
    """Announce at a door that this process is isolated, and route the connections of aiokafka through it.

    Raises:
        OSError: the door does not answer.
    """
    from aiokafka.conn import AIOKafkaConnection

    door.knock(path, isolation.fork)
    connect = AIOKafkaConnection.connect

    @functools.wraps(connect)
    async def connected(connection: Any) -> Any:
        loop = connection._loop
        connection._loop = _ThroughDoor(loop, path, isolation.fork)
        try:
            return await connect(connection)
        finally:
            connection._loop = loop

    isolation.put(AIOKafkaConnection, "connect", connected)


# -- confluent-kafka --------------------------------------------------------------------------------------------------


def guard_confluent(isolation: ForkPatches) -> None:
    """Refuse to create clients of confluent-kafka, also of classes that were imported or derived before."""
    try:
        from confluent_kafka import admin, cimpl
    except ImportError:  # and nobody else can import it
        return
    clients = [
        it
        for it in vars(cimpl).values()
        if isinstance(it, type) and any(hasattr(it, method) for method in CLIENT_METHODS)
    ]
    refused = {client: _refused(client, isolation.fork) for client in clients}
    derived: set[type] = {it for client in clients for it in _derived(client)}
    for it in {admin.AdminClient, *derived} - {*refused.values()}:
        isolation.put(it, "__new__", staticmethod(_refuse(isolation.fork)))
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is type and value in refused:
                isolation.put(module, name, refused[value])


def _derived(client: type) -> Iterator[type]:
    found: list[type] = client.__subclasses__()
    for derived in found:
        yield derived
        yield from _derived(derived)


def _refused(client: type, fork: str) -> type:
    """Create the class that takes the place of a client class."""
    return type(
        client.__name__, (client,), {"__new__": staticmethod(_refuse(fork)), "__module__": client.__module__}
    )


def _refuse(fork: str) -> Any:
    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise ForkIsolationError(
            f"{cls.__module__}.{cls.__name__} is a client of confluent-kafka, which fork {fork} cannot check",
            hint="use topics of the app (`app.topic`), which the fork translates",
        )

    return refuse
