"""Copies of the world of `recovery`: a cluster without anything and the storage that is left of the old one, and forks
beside production, with workers that run."""

from dataclasses import dataclass, field
from typing import Any

from snapkafka import ops
from snapkafka.manifest import ExternalEntry, TopicEntry
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeCluster, FakeLedger
from tests.worlds.logs import Admin, FakeLog
from tests.worlds.restore import IN, LOG, OUT, RAW, SETS, System, World

P = "fork.staging."
LEDGER = "_snapkafka.shop"
NEW_ID = "b" * 32
NEW_LEDGER = wire.ledger_id(bytes.fromhex(NEW_ID))
ALL = (IN, OUT, RAW, LOG, SETS)


@dataclass
class New(System):
    """A cluster without anything, and the storage that is left of the old one."""

    old: World
    log: FakeLog = field(default_factory=FakeLog)
    cluster: FakeCluster = field(default_factory=FakeCluster)
    admin: Admin = field(default_factory=Admin)

    def __post_init__(self) -> None:
        self.cluster.the_admin, self.admin.log = self.admin, self.log
        self.admin.ledgers = {LEDGER: FakeLedger(LEDGER, NEW_ID, exists=False)}

    @property
    def options(self) -> dict[str, Any]:
        return {"name": "friday", "storage": str(self.old.store.root), "into": True}


def after_a_loss(world: World) -> New:
    world.log.records.clear()  # the old cluster is gone
    world.cluster.the_ledger.failure = AssertionError("the old cluster is asked")
    settings = {"cleanup.policy": "compact", "segment.ms": "7"}
    topics = tuple(
        TopicEntry(name=tp.topic, topic_id="", partitions=1, settings={} if tp == RAW else settings)
        for tp in ALL
    )
    # The fake of the old log keeps messages of 1970 in topics that delete nothing.
    world.change(topics=topics, external=(ExternalEntry(topic="raw", mixed=False),))
    return New(world)


class Fork(System):
    """The fork `staging` beside production, whose workers run."""

    prefix = P

    def __init__(self, production: World) -> None:
        self.production, self.cluster = production, production.cluster
        self.log, self.admin = production.log, production.admin

    @property
    def options(self) -> dict[str, Any]:
        return self.production.options | {"fork": "staging"}

    def original(self) -> object:
        """All of production."""
        return self.production.fingerprint(lambda name: not name.startswith(P))

    async def drop(self, namespace: str = "shop", **options: Any) -> tuple[ops.Dropping, ...]:
        name = "" if options.get("expired") else "staging"
        planned = await ops.plan_drop(self.cluster, namespace, name, **options)
        return await ops.drop_forks(self.cluster, planned)
