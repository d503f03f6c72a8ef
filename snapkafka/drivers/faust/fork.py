"""Run the same code as a fork: with `SNAPKAFKA_FORK=NAME` a worker is part of a second system beside production.

Names are translated at the places from which Faust derives all others: the app's id (consumer group, changelogs,
leader topic, topics of agents that have none, transactional ids), the topics of `faust.Topic` (also those of
`group_by`, of `app.send("name")`, of replies and of `faust send`), the reply topic, and the folders for data.

A name that is not translated does not leave. Each request of aiokafka is checked in `AIOKafkaConnection.send`
(`kafka.cluster.fork_requests`); those of confluent-kafka leave in C, where nothing can be checked, so no client of it
is created. This fails closed, and so does a start that cannot be isolated. In a drill connections come through a door
(`runtime.door`).
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from snapkafka.errors import ForkIsolationError, InstallError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.cluster.fork_requests import require_of_fork
from snapkafka.protocol.forking import LEDGER, of_fork, prefixed
from snapkafka.runtime import door

from ..patches import Patches
from .describe import connection_of
from .support import at_start

#: In a topic of Faust: its translated names.
TRANSLATED: Final = "_snapkafka_fork_topics"
#: Any of these methods makes a type of confluent-kafka's C library a client.
CLIENT_METHODS: Final = ("list_topics", "produce", "subscribe", "poll")


class Isolation(Patches):
    """The hooks that keep one process within the fork of this name. All are installed at once, and can be removed."""

    current: Isolation | None = None

    def __init__(self, fork: str) -> None:
        super().__init__()
        self.fork = fork

    @classmethod
    def of(cls, fork: str) -> Isolation:
        """Return the isolation of this process; several apps of it share one."""
        if cls.current is None:
            isolation = cls(fork)
            isolation._attach()
            cls.current = isolation
        assert cls.current.fork == fork, "the environment has one fork"
        return cls.current

    def remove(self) -> None:
        type(self).current = None
        self.undo()

    def _attach(self) -> None:
        from aiokafka.client import AIOKafkaClient
        from aiokafka.conn import AIOKafkaConnection
        from aiokafka.producer.producer import AIOKafkaProducer
        from faust.topics import Topic

        self._refuse_confluent()
        send, connect = AIOKafkaConnection.send, AIOKafkaConnection.connect

        @functools.wraps(send)
        def checked(connection: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            if connection._writer is None:  # it states that it is not connected
                return send(connection, request, *args, **kwargs)
            struct = request.prepare(connection._versions)
            require_of_fork(self.fork, struct)
            of_this_form = SimpleNamespace(prepare=lambda versions: struct)
            return send(connection, of_this_form, *args, **kwargs)

        self.put(AIOKafkaConnection, "send", checked)
        # A client asks about all of its topics at once, and sends to all at once: one that is refused when the request
        # leaves would take the others with it.
        self.before(AIOKafkaProducer, "send", lambda producer, topic, *_, **__: self._require([topic]))
        self.before(AIOKafkaClient, "add_topic", lambda client, topic: self._require([topic]))
        self.before(AIOKafkaClient, "set_topics", lambda client, topics: self._require(topics))
        self.put(Topic, "topics", property(self._topics, _set_topics))
        if path := os.environ.get(door.DOOR):
            door.knock(path, self.fork)

            @functools.wraps(connect)
            async def connected(connection: Any) -> Any:
                loop = connection._loop
                connection._loop = _ThroughDoor(loop, path, self.fork)
                try:
                    return await connect(connection)
                finally:
                    connection._loop = loop

            self.put(AIOKafkaConnection, "connect", connected)

    def _require(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if not of_fork(self.fork, topic):
                raise ForkIsolationError(f"topic {topic} is not of fork {self.fork}: refused to use it")

    def _topics(self, topic: Any) -> list[str]:
        """Return the names of a Faust topic, also of one that was created before the fork was known."""
        known: list[str] | None = topic.__dict__.get(TRANSLATED)
        if known is None:
            names = topic.__dict__.get("topics", ())
            known = topic.__dict__[TRANSLATED] = [prefixed(self.fork, name) for name in names]
        return known

    def _refuse_confluent(self) -> None:
        """Replace the clients of confluent-kafka, also where they were imported or derived before."""
        try:
            from confluent_kafka import cimpl
        except ImportError:  # and nobody else can import it
            return

        def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
            raise ForkIsolationError(
                f"{cls.__module__}.{cls.__name__} is a client of confluent-kafka, which fork {self.fork} cannot check",
                hint="use topics of the app (`app.topic`), which the fork translates",
            )

        types: list[Any] = [it for it in vars(cimpl).values() if isinstance(it, type)]
        clients = [it for it in types if any(hasattr(it, method) for method in CLIENT_METHODS)]
        for derived in {it for client in clients for it in client.__subclasses__()}:  # theirs inherit it
            self.put(derived, "__new__", staticmethod(refuse))
        members = {"__new__": staticmethod(refuse)}
        refused = {it: type(it.__name__, (it,), {**members, "__module__": it.__module__}) for it in clients}
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if type(value) is type and value in refused:
                    self.put(module, name, refused[value])


def _set_topics(topic: Any, names: Iterable[str]) -> None:
    topic.__dict__["topics"] = list(names)
    topic.__dict__.pop(TRANSLATED, None)


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


# -- one app ----------------------------------------------------------------------------------------------------------


def become_fork(app: Any, fork: str) -> None:
    """Translate the names of an app to those of a fork, early or late in its module; its settings need not be read yet.

    Raises:
        ImportError, AttributeError: this Faust or aiokafka keeps something elsewhere.
        OSError: the door of its drill does not answer.
    """
    Isolation.of(fork)
    app.Settings = _settings_of(fork, app.Settings)
    if app._conf is not None:
        app._conf.__class__ = _settings_of(fork, type(app._conf))
    tables = app.__dict__.get("tables")  # a cached property: there once it was used
    if tables is not None:
        tables._changelogs = {
            table.changelog_topic.get_topic_name(): table for table in tables._changelogs.values()
        }


def _settings_of(fork: str, settings: type) -> type:
    """Derive settings whose names and folders are those of the fork, whatever is set and whenever it is read."""
    if getattr(settings, "snapkafka_fork", "") == fork:
        return settings

    def translated(name: str, translate: Callable[[Any, Any], Any]) -> property:
        # A property, or what Faust has in the place of one.
        theirs: Any = inspect.getattr_static(settings, name)
        return property(lambda conf: translate(conf, theirs.__get__(conf, type(conf))), theirs.__set__)

    def beside(folder: Path) -> Path:
        return folder.with_name(prefixed(fork, folder.name))

    ways: dict[str, Callable[[Any, Any], Any]] = {
        "id": lambda conf, name: prefixed(fork, name),
        "reply_to": lambda conf, name: prefixed(fork, name),
        "datadir": lambda conf, folder: beside(folder),
        "tabledir": lambda conf, folder: folder if folder.is_relative_to(conf.datadir) else beside(folder),
    }
    members = {name: translated(name, translate) for name, translate in ways.items()}
    return type("ForkSettings", (settings,), {"snapkafka_fork": fork, **members})


def require_fork(app: Any, fork: str, namespace: str) -> None:
    """Refuse to start if there is no such fork: a mistyped name would otherwise run an empty system.

    Args:
        namespace: the fork's.
    """

    async def require() -> None:
        ledger = LEDGER + namespace
        async with KafkaTopicAdmin(connection_of(app)) as admin:
            found = await admin.describe_topics([ledger])
        if ledger not in found:
            raise InstallError(
                f"SNAPKAFKA_FORK={fork}: there is no such fork here (no ledger {ledger})",
                hint=f"create it: snapkafka fork create {fork} --from SNAPSHOT",
            )

    at_start(app, before=require)
