"""Run the same code as a fork: with `SNAPKAFKA_FORK=NAME` a worker is part of a second system beside production.

Names are translated at the places from which Faust derives all others: the app's id (consumer group, changelogs,
leader topic, topics of agents that have none, transactional ids), the topics of `faust.Topic` (also those of
`group_by`, of `app.send("name")`, of replies and of `faust send`), the reply topic, and the folders for data.

A name that is not translated does not leave: requests are checked where they leave the client (`fork_clients`). This
fails closed, and so does a start that cannot be isolated.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import InstallError
from snapkafka.protocol.forking import LEDGER, prefixed
from snapkafka.runtime.door import DOOR

from .factories import at_start, wrap_factory
from .fork_clients import ForkPatches, guard_confluent, guard_requests, lead_through_door

#: In a topic of Faust: its translated names.
TRANSLATED: Final = "_snapkafka_fork_topics"


class Isolation(ForkPatches):
    """The hooks that keep one process within its fork. All are installed at once, and can be removed.

    Args:
        fork: its name.
    """

    current: Isolation | None = None

    @classmethod
    def of(cls, fork: str) -> Isolation:
        """Return the isolation of this process; several apps of it share one."""
        if cls.current is None:
            cls.current = cls(fork)
            try:
                cls.current._attach()
            except BaseException:
                cls.current.remove()
                raise
        assert cls.current.fork == fork, "the environment has one fork"
        return cls.current

    def remove(self) -> None:
        """Remove all hooks."""
        type(self).current = None
        self.undo()

    # -- hooks ----------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        from faust.topics import Topic

        guard_confluent(self)
        guard_requests(self)
        self.put(Topic, "topics", property(self._topics, _set_topics))
        if path := os.environ.get(DOOR):
            lead_through_door(self, path)

    def _topics(self, topic: Any) -> list[str]:
        """Return the names of a Faust topic, also of one that was created before the fork was known."""
        known: list[str] | None = topic.__dict__.get(TRANSLATED)
        if known is None:
            names = topic.__dict__.get("topics", ())
            known = topic.__dict__[TRANSLATED] = [prefixed(self.fork, name) for name in names]
        return known


def _set_topics(topic: Any, names: Iterable[str]) -> None:
    topic.__dict__["topics"] = list(names)
    topic.__dict__.pop(TRANSLATED, None)


# -- one app ----------------------------------------------------------------------------------------------------------


def become_fork(app: Any, fork: str) -> None:
    """Translate the names of an app to those of a fork, early or late in its module; its settings need not be read yet.

    Raises:
        ImportError, AttributeError: this Faust or aiokafka keeps something elsewhere.
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


def fence(app: Any, fork: str, namespace: str) -> None:
    """Refuse a start if the fork does not exist. To be called after all other patches.

    Args:
        namespace: the fork's.
    """
    assert Isolation.current is not None, "become_fork() comes first"
    wrap_factory(app, "_new_producer", partial(_guard, Isolation.current), existing=app._producer)
    _await_ledger(app, fork, LEDGER + namespace)


def _settings_of(fork: str, settings: type) -> type:
    """Derive settings whose names and folders are those of the fork, whatever is set and whenever it is read."""
    if getattr(settings, "snapkafka_fork", "") == fork:
        return settings

    def translated(name: str, translate: Callable[[Any, Any], Any]) -> property:
        inherited = inspect.getattr_static(
            settings, name
        )  # a property, or what Faust has in the place of one

        def get(conf: Any) -> Any:
            return translate(conf, inherited.__get__(conf, type(conf)))

        def put(conf: Any, value: Any) -> None:
            inherited.__set__(conf, value)

        return property(get, put)

    def name_of(conf: Any, name: str) -> str:
        return prefixed(fork, name)

    def beside(conf: Any, folder: Path) -> Path:
        return folder.with_name(prefixed(fork, folder.name))

    def tables_beside(conf: Any, folder: Path) -> Path:
        return folder if folder.is_relative_to(conf.datadir) else beside(conf, folder)

    return type(
        "ForkSettings",
        (settings,),
        {
            "snapkafka_fork": fork,
            "id": translated("id", name_of),
            "reply_to": translated("reply_to", name_of),
            "datadir": translated("datadir", beside),
            "tabledir": translated("tabledir", tables_beside),
        },
    )


def _guard(isolation: Isolation, producer: Any) -> None:
    """Refuse `app.producer.send("orders")` before it gets to our own hook, to which a refusal would be a fault."""
    send = producer.send

    async def checked(topic: str, *args: Any, **kwargs: Any) -> Any:
        isolation.check("write", [topic])
        return await send(topic, *args, **kwargs)

    producer.send = checked


def _await_ledger(app: Any, fork: str, ledger: str) -> None:
    """Refuse to start if there is no such fork: a mistyped name would otherwise run an empty system."""

    async def require_fork() -> None:
        from snapkafka.kafka.cluster.admin import KafkaTopicAdmin

        from .connection import connection_of

        async with KafkaTopicAdmin(connection_of(app)) as admin:
            found = await admin.describe_topics([ledger])
        if ledger not in found:
            raise InstallError(
                f"SNAPKAFKA_FORK={fork}: there is no such fork here (no ledger {ledger})",
                hint=f"create it: snapkafka fork create {fork} --from SNAPSHOT",
            )

    at_start(app, before=require_fork)
