"""A cluster without anything, and the storage that is left of the old one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.manifest_entries import ExternalEntry, TopicEntry
from snapkafka.protocol import LedgerState, TopicPartition
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeCluster, FakeLedger, FakeTopic
from tests.worlds.recovery import IN, LOG, OUT, RAW, SETS, Admin, FakeLog, World, save

TOPIC = "_snapkafka.shop"
NEW_ID = "b" * 32
LEDGER = wire.ledger_id(bytes.fromhex(NEW_ID))
ALL = (IN, OUT, RAW, LOG, SETS)


class NewLedger(FakeLedger):
    """A ledger that is there once somebody has created it."""

    topic = TOPIC
    topic_id = NEW_ID

    def __init__(self) -> None:
        super().__init__()
        self.exists = False

    async def open(self, *, create: bool = True) -> None:
        await super().open(create=create)
        self.exists = True


class NewAdmin(Admin):
    """Topics can be created. `other`: partition counts of those that somebody else creates first."""

    ledger: NewLedger
    other: Mapping[str, int]

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, FakeTopic]:
        there = dict(self.topics)
        if self.ledger.exists:
            there[TOPIC] = FakeTopic(1, NEW_ID)
        return {name: it for name, it in there.items() if topics is None or name in topics}

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        if validate_only:
            if "no.such.setting" in (settings or {}):
                raise LedgerUnusableError(f"could not create topic {topic}: Unknown topic config name")
            return topic not in self.topics
        self.topics[topic] = FakeTopic(self.other.get(topic, partitions), "c" * 32)
        self.settings[topic] = dict(settings or {})
        return topic not in self.other

    async def delete_topics(self, *topics: str) -> None:
        raise AssertionError("nothing is deleted")


@dataclass
class New:
    """A cluster without anything, and the storage that is left of the old one, which is the world of `test_restore`."""

    old: World
    log: FakeLog = field(default_factory=FakeLog)
    cluster: FakeCluster = field(default_factory=FakeCluster)
    admin: NewAdmin = field(default_factory=NewAdmin)

    def __post_init__(self) -> None:
        self.ledger = self.cluster.the_ledger = NewLedger()
        self.cluster.the_admin = self.admin
        self.admin.log, self.admin.ledger, self.admin.other = self.log, self.ledger, {}

    async def restore(
        self, crash: Callable[[str], None] = lambda step: None, **options: Any
    ) -> ops.Recovered:
        return await ops.recover(self.cluster, await self.plan(**options), crash=crash, bulk=self.log)

    async def plan(self, **options: Any) -> ops.RecoveryPlan:
        bulk = options.pop("bulk", self.log)
        request: dict[str, Any] = {"name": "friday", "storage": str(self.old.store.root)} | options
        return await ops.plan_recovery(self.cluster, ops.RecoveryRequest(into=True, **request), bulk=bulk)

    @property
    def state(self) -> LedgerState:
        state = LedgerState()
        for entry in self.ledger.entries:
            state.apply(entry.offset, entry.record)
        return state

    def fingerprint(self) -> object:
        """All that a refusal must leave as it was."""
        return (
            self.ledger.exists,
            [entry.record for entry in self.ledger.entries],
            {tp: list(found) for tp, found in self.log.records.items() if found},
            {group: dict(found) for group, found in self.admin.commits.items()},
            dict(self.admin.topics),
        )

    def taken(self, agent: str, tp: TopicPartition = IN) -> list[bytes | None]:
        """What an agent takes from an input, by the rules of the new ledger."""
        start = self.admin.commits["app"][tp]
        rule = self.state.restores.rules("app", tp)[agent]
        return [record.value for record in self.log.records[tp][start:] if rule.takes(record.offset)]

    def folded(self) -> tuple[dict[bytes, bytes], set[int]]:
        """The tables as Faust recovers them from their whole changelogs."""
        as_old = dataclasses.replace(self.old, log=self.log)
        return as_old.folded(), as_old.members()


def after_a_loss(world: World) -> New:
    world.log.records.clear()  # the old cluster is gone
    world.cluster.the_ledger.failure = AssertionError("the old cluster is asked")
    settings = {"cleanup.policy": "compact", "segment.ms": "7"}
    topics = tuple(
        TopicEntry(name=tp.topic, topic_id="", partitions=1, settings={} if tp == RAW else settings)
        for tp in ALL
    )
    # The fake of the old log keeps messages of 1970 in topics that delete nothing.
    world.manifest = dataclasses.replace(
        world.manifest, topics=topics, external=(ExternalEntry(topic="raw", mixed=False),)
    )
    save(world, world.manifest)
    return New(world)
