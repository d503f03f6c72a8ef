"""Production with workers that run, and the forks beside it, on logs in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapkafka import ops
from snapkafka.protocol import LedgerState, TopicPartition
from tests.worlds.fakes import FakeLedger, FakeTopic
from tests.worlds.recovery import IN, Admin, World

P = "fork.staging."
OWN = f"_snapkafka.{P}shop"


def named(tp: TopicPartition) -> TopicPartition:
    return TopicPartition(P + tp.topic, tp.partition)


class ForkAdmin(Admin):
    """Topics can be created and deleted; their logs with them. A deleted one takes with it what groups committed."""

    fork: Fork
    made = 0

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, FakeTopic]:
        there = self.topics | {name: it.described for name, it in self.fork.ledgers.items()}
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
        if validate_only or topic in self.topics:
            return topic not in self.topics
        self.made += 1
        self.topics[topic] = FakeTopic(partitions, f"{self.made:032x}")
        self.settings[topic] = dict(settings or {})
        return True

    async def delete_topics(self, *topics: str) -> None:
        for topic in topics:
            assert topic.removeprefix("_snapkafka.").startswith("fork."), "nothing of production is deleted"
            self.topics.pop(topic, None)
            self.fork.ledgers.pop(topic, None)
            self.settings.pop(topic, None)
            for tp in [tp for tp in self.log.records if tp.topic == topic]:
                del self.log.records[tp]
            for committed in self.commits.values():
                for tp in [tp for tp in committed if tp.topic == topic]:
                    del committed[tp]


class OwnLedger(FakeLedger):
    """A ledger of a fork, which is a topic like others."""

    def __init__(self, topic: str, fork: Fork) -> None:
        super().__init__()
        self.topic, self.fork = topic, fork
        self.described = FakeTopic(1, "f" * 32)

    async def open(self, *, create: bool = True) -> None:
        self.exists = self.topic in self.fork.ledgers
        await super().open(create=create)
        self.fork.ledgers[self.topic] = self


@dataclass
class Fork:
    """Production of `test_restore`, with workers that run, and the forks beside it."""

    production: World
    ledgers: dict[str, OwnLedger] = field(default_factory=dict)
    groups_deleted: list[str] = field(default_factory=list)

    def ledger(self, namespace: str) -> FakeLedger:
        topic = f"_snapkafka.{namespace}"
        if namespace == "shop":
            return self.production.cluster.the_ledger
        return self.ledgers.get(topic) or OwnLedger(topic, self)

    def admin(self) -> Any:
        return self.production.admin

    def delete_groups(self, groups: list[str]) -> None:
        assert all(group.startswith(P) for group in groups)
        self.groups_deleted += groups

    @property
    def state(self) -> LedgerState:
        state = LedgerState()
        for entry in self.ledgers[OWN].entries:
            state.apply(entry.offset, entry.record)
        return state

    def fingerprint(self) -> object:
        """All of production: every record, end, commit, topic and setting."""
        admin = self.production.admin
        return (
            [entry.record for entry in self.production.cluster.the_ledger.entries],
            {
                tp: list(found)
                for tp, found in self.production.log.records.items()
                if found and not tp.topic.startswith("fork.")
            },
            {group: dict(found) for group, found in admin.commits.items() if not group.startswith("fork.")},
            {name: it for name, it in admin.topics.items() if not name.startswith("fork.")},
            {name: dict(it) for name, it in admin.settings.items() if not name.startswith("fork.")},
        )

    async def plan(self, **options: Any) -> ops.RecoveryPlan:
        it = self.production
        options = {
            "namespace": "shop",
            "fork": "staging",
            "name": "friday",
            "storage": str(it.store.root),
        } | options
        return await ops.plan_recovery(self, ops.RecoveryRequest(**options), bulk=it.log)

    async def create(
        self,
        crash: Callable[[str], None] = lambda step: None,
        notify: Callable[[str], None] = lambda text: None,
        **options: Any,
    ) -> ops.Recovered:
        plan = await self.plan(**options)
        return await ops.recover(self, plan, bulk=self.production.log, crash=crash, notify=notify)

    async def drop(self, namespace: str = "shop", **options: Any) -> tuple[ops.Dropped, ...]:
        name = "" if options.get("expired") else "staging"
        return await ops.drop_forks(self, await ops.plan_drop(self, namespace, name, **options), groups=self)

    def values(self, tp: TopicPartition) -> list[bytes | None]:
        return [record.value for record in self.production.log.records[named(tp)]]


def beside_production(world: World) -> Fork:
    admin = ForkAdmin(**{it.name: getattr(world.admin, it.name) for it in dataclasses.fields(Admin)})
    admin.log = world.log
    world.admin = world.cluster.the_admin = admin
    admin.topics = {name: FakeTopic(1, "0" * 32) for name in admin.topics}
    admin.member_counts = []
    found = Fork(world)
    admin.fork = found
    return found


def takes(fork: Fork, agent: str, tp: TopicPartition = IN) -> list[bytes | None]:
    """What an agent of the fork takes, by the rules of the fork's ledger."""
    start = fork.production.admin.commits[f"{P}app"][named(tp)]
    rule = fork.state.restores.rules(f"{P}app", named(tp))[agent]
    records = fork.production.log.records[named(tp)][start:]
    return [record.value for record in records if rule.takes(record.offset)]
