"""Copies of the world of `recovery`: a cluster without anything and the storage that is left of the old one, and forks
beside production, with workers that run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from snapkafka import ops
from snapkafka.manifest_entries import ExternalEntry, TopicEntry
from snapkafka.ports import Entry, Group, Topic
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeCluster, FakeLedger
from tests.worlds.restore import IN, LOG, OUT, RAW, SETS, Admin, FakeLog, System, World

P = "fork.staging."
OWN = f"_snapkafka.{P}shop"
NEW_ID = "b" * 32
NEW_LEDGER = wire.ledger_id(bytes.fromhex(NEW_ID))
ALL = (IN, OUT, RAW, LOG, SETS)


class Creating(Admin):
    """Topics of forks can be deleted, and their logs with them. `ledgers`: by topic, which exist once somebody has
    created them."""

    ledgers: dict[str, LaterLedger]

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, Topic]:
        there = self.topics | {name: Topic(1, it.topic_id) for name, it in self.ledgers.items() if it.exists}
        return {name: it for name, it in there.items() if topics is None or name in topics}

    async def groups(self) -> list[Group]:
        forked = [group for group in self.commits if group.startswith("fork.")]
        return [Group(name, frozenset(), await self.group_members(name)) for name in forked]

    async def delete_topics(self, *topics: str) -> None:
        for topic in topics:
            assert topic.removeprefix("_snapkafka.").startswith("fork."), "nothing else is deleted"
            self.topics.pop(topic, None)
            self.ledgers.pop(topic, None)
            self.settings.pop(topic, None)
            for tp in [tp for tp in self.log.records if tp.topic == topic]:
                del self.log.records[tp]
            for committed in self.commits.values():
                for tp in [tp for tp in committed if tp.topic == topic]:
                    del committed[tp]


class LaterLedger(FakeLedger):
    """A ledger that is there once somebody has created it."""

    def __init__(self, topic: str, topic_id: str, admin: Creating) -> None:
        super().__init__()
        self.topic, self.topic_id, self.exists = topic, topic_id, False
        self._admin = admin

    async def open(self, *, create: bool = True) -> None:
        await super().open(create=create)
        self.exists, self._admin.ledgers[self.topic] = True, self


@dataclass
class New(System):
    """A cluster without anything, and the storage that is left of the old one."""

    old: World
    log: FakeLog = field(default_factory=FakeLog)
    fake: FakeCluster = field(default_factory=FakeCluster)
    admin: Creating = field(default_factory=Creating)

    def __post_init__(self) -> None:
        self.ledger = LaterLedger("_snapkafka.shop", NEW_ID, self.admin)
        self.fake.the_ledger, self.fake.the_admin = self.ledger, self.admin
        self.admin.log = self.log
        self.admin.ledgers = {self.ledger.topic: self.ledger}

    @property
    def cluster(self) -> FakeCluster:
        return self.fake

    @property
    def entries(self) -> list[Entry]:
        return self.ledger.entries

    @property
    def options(self) -> dict[str, Any]:
        return {"name": "friday", "storage": str(self.old.store.root), "into": True}


def after_a_loss(world: World) -> New:
    world.log.records.clear()  # the old cluster is gone
    world.fake.the_ledger.failure = AssertionError("the old cluster is asked")
    settings = {"cleanup.policy": "compact", "segment.ms": "7"}
    topics = tuple(
        TopicEntry(name=tp.topic, topic_id="", partitions=1, settings={} if tp == RAW else settings)
        for tp in ALL
    )
    # The fake of the old log keeps messages of 1970 in topics that delete nothing.
    world.change(topics=topics, external=(ExternalEntry(topic="raw", mixed=False),))
    return New(world)


class Ports:
    """`ports.Cluster` of production and its forks; it also deletes groups."""

    def __init__(self, production: World, admin: Creating) -> None:
        self._production, self._admin = production, admin
        self.groups_deleted: list[str] = []

    def ledger(self, namespace: str) -> FakeLedger:
        topic = f"_snapkafka.{namespace}"
        if namespace == "shop":
            return self._production.fake.the_ledger
        return self._admin.ledgers.get(topic) or LaterLedger(topic, "f" * 32, self._admin)

    def admin(self) -> Creating:
        return self._admin

    def delete_groups(self, groups: Sequence[str]) -> None:
        assert all(group.startswith(P) for group in groups)
        self.groups_deleted += groups
        for group in groups:
            self._admin.commits.pop(group, None)


class Fork(System):
    """The fork `staging` beside production, whose workers run."""

    prefix = P
    admin: Creating

    def __init__(self, production: World) -> None:
        self.production, self.log = production, production.log
        known = {it.name: getattr(production.admin, it.name) for it in dataclasses.fields(Admin)}
        self.admin = Creating(
            **known | {"topics": {name: Topic(1, "0" * 32) for name in production.admin.topics}}
        )
        self.admin.log, self.admin.ledgers = self.log, {}
        self.admin.member_counts = []
        production.admin = production.fake.the_admin = self.admin
        self.ports: Any = Ports(production, self.admin)

    @property
    def cluster(self) -> Any:
        return self.ports

    @property
    def ledgers(self) -> dict[str, LaterLedger]:
        return self.admin.ledgers

    @property
    def entries(self) -> list[Entry]:
        return self.ledgers[OWN].entries if OWN in self.ledgers else []

    @property
    def options(self) -> dict[str, Any]:
        return self.production.options | {"fork": "staging"}

    def original(self) -> object:
        """All of production: every record, end, commit, topic and setting."""
        return (
            [entry.record for entry in self.production.entries],
            {
                tp: list(found)
                for tp, found in self.log.records.items()
                if found and not tp.topic.startswith(P)
            },
            {group: dict(found) for group, found in self.admin.commits.items() if not group.startswith(P)},
            {name: it for name, it in self.admin.topics.items() if not name.startswith(P)},
            {name: dict(it) for name, it in self.admin.settings.items() if not name.startswith(P)},
        )

    async def drop(self, namespace: str = "shop", **options: Any) -> tuple[ops.Dropping, ...]:
        name = "" if options.get("expired") else "staging"
        planned = await ops.plan_drop(self.cluster, namespace, name, **options)
        return await ops.drop_forks(self.cluster, planned, groups=self.ports)
