"""A stopped app, its logs in memory, and a snapshot of it: the world of the tests of a recovery."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from snapkafka import ops
from snapkafka.errors import ForkRefusedError, PlanChangedError, RestoreRefusedError
from snapkafka.kafka import KafkaRecord
from snapkafka.manifest import ExternalEntry, LogEntry, Manifest, ReadEntry, TopicEntry, dump
from snapkafka.ports import Entry, Topic
from snapkafka.protocol import Captured, Hello, InputTopic, LedgerState, Table, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, Code, ProcessCut, SenderEnd
from snapkafka.protocol.offsets import Agent, Position
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, FakeLedger
from tests.worlds.logs import Admin, FakeLog
from tests.worlds.on_disk import read_up_to, write_snapshot
from tests.worlds.stores import LocalStore

EPOCH = 4
SENDER = 1
IN, OUT, LOG, SETS = (TopicPartition(name, 0) for name in ("in", "out", "app-t-changelog", "app-s-changelog"))
RAW = TopicPartition("raw", 0)
AGENTS = (
    Agent(name="a", topics=("in",), key_codec="raw", value_codec="json", value_type="Order(id: str)"),
    Agent(name="b", topics=("in",), key_codec="raw", value_codec="json"),
    Agent(name="c", topics=("raw",), key_codec="raw", value_codec="json"),
)


HELLO = Hello(
    n=1,
    app="app",
    inputs=tuple(InputTopic(topic=name, partitions=1) for name in ("in", "raw")),
    tables=(
        Table(name="t", changelog=LOG.topic, partitions=1, kind="Table", value_type="int"),
        Table(name="s", changelog=SETS.topic, partitions=1, sets=True, kind="SetTable"),
    ),
    agents=AGENTS,
)


def row_of(tp: TopicPartition, key: bytes | None, value: bytes | None) -> KafkaRecord:
    """A row of the table `state`."""
    return KafkaRecord(*tp, -1, key, value, (), -1)


def fold(records: Iterable[KafkaRecord]) -> dict[bytes | None, bytes]:
    """Fold a plain changelog as Faust recovers it, by another rule than the package's."""
    found: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def fold_sets(records: Iterable[KafkaRecord]) -> defaultdict[str, set[str]]:
    """Fold a changelog of sets as Faust recovers it: the members as JSON; 1.0 is 1 to a set of Python."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        (kind, of), change = json.loads(record.key or b""), json.loads(record.value or b"")
        added, removed = change if kind == 15 else ([change], []) if kind == 1 else ([], [change])
        for members, act in ((added, found[of].add), (removed, found[of].discard)):
            for it in members:
                act(json.dumps(int(it) if isinstance(it, float) else it))
    return found


class System:
    """A recovery on logs in memory: plan it, run it, and read what came of it.

    `prefix`: of the names of a fork. `takes`: what agents a and b take from `in` once it is restored.
    """

    log: Any  # a `FakeLog`
    admin: Admin
    cluster: Any
    prefix = ""
    takes: ClassVar[Mapping[str, list[bytes]]] = {"a": [b"one", b"three"], "b": [b"three"]}

    @property
    def ledger(self) -> FakeLedger:
        """That of the target."""
        return self.cluster.ledger(self.prefix + "shop")  # type: ignore[no-any-return]

    @property
    def entries(self) -> list[Entry]:
        return self.ledger.entries

    @property
    def options(self) -> dict[str, Any]:
        """The fields of the request."""
        raise NotImplementedError

    @property
    def state(self) -> LedgerState:
        return self.ledger.state

    async def plan(self, **options: Any) -> ops.RecoveryPlan:
        request, before = ops.RecoveryRequest(**self.options | options), self.fingerprint()
        try:
            return await ops.plan_recovery(self.cluster, request, bulk=self.log)
        finally:
            assert self.fingerprint() == before, "a plan changes nothing"

    async def do(self, plan: ops.RecoveryPlan, **options: Any) -> ops.Recovered:
        before = self.fingerprint(), dict(self.admin.held)
        try:
            return await ops.recover(self.cluster, plan, bulk=self.log, **options)
        except (RestoreRefusedError, ForkRefusedError, PlanChangedError):
            assert (self.fingerprint(), self.admin.held) == before, "what is refused changes nothing"
            raise

    async def restore(
        self, crash: Callable[[str], object] = lambda step: None, **options: Any
    ) -> ops.Recovered:
        return await self.do(await self.plan(**options), crash=crash)

    def named(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.prefix + tp.topic, tp.partition)

    def records(self, tp: TopicPartition) -> list[KafkaRecord]:
        found: list[KafkaRecord] = self.log.records[self.named(tp)]
        return found

    def values(self, tp: TopicPartition) -> list[bytes | None]:
        return [record.value for record in self.records(tp)]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self.admin.commits[f"{self.prefix}app"]

    def fingerprint(self, of: Callable[[str], bool] = lambda name: True) -> object:
        """All that a refusal must leave as it was: every record, end, commit, topic and setting, by their names."""
        admin = self.admin
        return (
            [entry.record for entry in self.entries],
            {tp: list(found) for tp, found in self.log.records.items() if found and of(tp.topic)},
            {group: dict(found) for group, found in admin.commits.items() if of(group)},
            {name: (it, dict(admin.settings.get(name, {}))) for name, it in admin.topics.items() if of(name)},
        )

    def taken(self, agent: str, tp: TopicPartition = IN) -> list[bytes | None]:
        """The values that an agent takes from an input, by the rules of the ledger (D2)."""
        start = self.positions[self.named(tp)]
        rule = self.state.restores.rules(f"{self.prefix}app", self.named(tp))[agent]
        return [
            record.value
            for record in self.records(tp)[start:]
            if rule.takes(record.offset) and not (record.key or b"").startswith(b"_sk:")
        ]

    def folded(self) -> dict[bytes | None, bytes]:
        return fold(self.records(LOG))

    def members(self) -> set[int]:
        return {json.loads(it) for it in fold_sets(self.records(SETS))["k"]}

    def holds_the_snapshot(self) -> None:
        """Tables and what each agent takes are those of the cut."""
        assert self.folded() == {b'"x"': b"1", b'"y"': b"2"}
        assert self.members() == {1, 2}
        assert {agent: self.taken(agent) for agent in ("a", "b")} == self.takes


@dataclass
class World(System):
    """A cluster with one app, stopped, and a snapshot of it.

    `in`: offset 0 done, 1 and 3 in flight, 2 and 5 external, 4 a marker, 6 red. One agent stands at 1, the other at 3.
    `raw`: external records alone. The table has x=1 and y=2 at the cut; since then x was written, y deleted, z new.
    The set has members 1 and 2 of k; since then 2 was removed and 3 added.
    """

    cluster: FakeCluster
    log: FakeLog
    admin: Admin
    store: LocalStore
    manifest: Manifest
    takes: ClassVar = {
        "a": [b"one", b"two, external", b"three", b"five, external"],
        "b": [b"three", b"five, external"],
    }

    @property
    def options(self) -> dict[str, Any]:
        return {"namespace": "shop", "name": "friday", "storage": str(self.store.root)}

    def change(self, **changes: Any) -> None:
        """Save the manifest with these fields, or fields of `captured`."""
        fields = {field.name for field in dataclasses.fields(Captured)}
        captured = {name: changes.pop(name) for name in list(changes) if name in fields and name != "epoch"}
        if "stored" in changes:
            changes["inputs"] = changes.pop("stored")  # ranges: the manifest has two kinds of inputs
        if "epoch" in changes:
            captured["epoch"] = changes["epoch"]
        self.manifest = dataclasses.replace(
            self.manifest, captured=dataclasses.replace(self.manifest.captured, **captured), **changes
        )
        self.store.manifest_path("friday").write_text(dump(self.manifest))


def stored(
    topic: str, offset: int, key: bytes, value: bytes, *headers: tuple[str, bytes | None]
) -> dict[str, Any]:
    """A row of the tables `messages` and `inputs`."""
    found = {"topic": topic, "partition": 0, "offset": offset, "timestamp_ms": 1_000 + offset}
    given = [{"key": name, "value": of} for name, of in headers]
    return found | {"key_raw": key, "value_raw": value, "headers": given}


def message(offset: int, value: bytes) -> dict[str, Any]:
    found = stored("in", offset, b"k", value, ("trace", b"7"), ("trace", None))
    return found | {"sender": SENDER, "receiver_app": "app"}


MESSAGES = [message(1, b"one"), message(3, b"three")]
COLUMNS = ("app", "partition", "table_name", "key_raw", "value_raw", "changelog_topic")
STATE: list[dict[str, Any]] = [
    dict(zip(COLUMNS, ("app", 0, *row), strict=True))
    for row in (
        ("t", b'"x"', b"1", LOG.topic),
        ("t", b'"y"', b"2", LOG.topic),
        ("s", b'[15,"k"]', b"[[1,2],[]]", SETS.topic),
    )
]


def captured() -> Captured:
    agents = tuple(Position(agent=it, topic="in", partition=0, offset=at) for it, at in (("a", 1), ("b", 3)))
    read = read_up_to("in", 0, 1, topic_id="")
    cut = dataclasses.replace(read, app="app", receiver=SENDER, log_end=4, agents=agents)
    raw = (Position(agent="c", topic="raw", partition=0, offset=2, started_above=(3,)),)
    changelog = ChangelogCut(
        app="app", table="t", topic=LOG.topic, topic_id="", partition=0, end=2, process=SENDER
    )
    sender = SenderEnd(process=SENDER, topic="out", partition=0, white_end=1, last_seq=0)
    return dataclasses.replace(
        example().captured,
        id="friday",
        epoch=EPOCH,
        processes=(ProcessCut(process=SENDER, app="app"),),
        inputs=(cut, dataclasses.replace(cut, topic="raw", position=2, agents=raw)),
        senders=(sender,),
        changelogs=(changelog, dataclasses.replace(changelog, table="s", topic=SETS.topic, sets=True)),
        recorded=(),
        code=(Code(app="app", agents=HELLO.agents, tables=HELLO.tables),),
    )


def stopped_app(tmp_path: Path) -> World:
    log, cluster = FakeLog(), FakeCluster()
    admin = Admin()
    admin.log, cluster.the_admin = log, admin
    topics = ("in", "raw", "out", LOG.topic, SETS.topic)
    admin.topics = {name: Topic(1) for name in topics}
    compacted = {"cleanup.policy": "compact", "delete.retention.ms": str(2**62)}
    admin.settings = {name: dict(compacted) for name in topics}
    admin.commits = {"app": {IN: 7, RAW: 9}}
    for value in (b"done", b"one"):
        log.put(IN, b"k", value, by=SENDER)
    log.put(IN, b"e", b"two, external")
    log.put(IN, b"k", b"three", by=SENDER)
    log.put(IN, b"_sk:1", None, by=SENDER, epoch=EPOCH)
    log.put(IN, b"e", b"five, external")
    log.put(IN, b"k", b"red", by=SENDER, epoch=EPOCH)
    for number in range(9):
        log.put(RAW, b"r", b"%d" % number)
    for number in range(3):
        log.put(OUT, b"o", b"%d" % number, by=SENDER)
    changes = ((b'"x"', b"1"), (b'"y"', b"2"), (b'"x"', b"9"), (b'"y"', None), (b'"z"', b"3"))
    for key, of in changes:
        log.put(LOG, key, of, by=SENDER)
    for key, value in ((b'[1,"k"]', b"1"), (b'[1,"k"]', b"2"), (b'[2,"k"]', b"2"), (b'[1,"k"]', b"3")):
        log.put(SETS, key, value, by=SENDER)
    cluster.the_ledger.topic = "_snapkafka.shop"
    admin.ledgers = {cluster.the_ledger.topic: cluster.the_ledger}
    cluster.the_ledger.put(None)
    assert cluster.the_ledger.put(HELLO) == SENDER
    store = LocalStore(tmp_path)
    manifest = write_snapshot(store, "friday", EPOCH, state=STATE, messages=MESSAGES)
    manifest = dataclasses.replace(
        manifest,
        captured=captured(),
        topics=tuple(TopicEntry(name=name, topic_id="", partitions=1) for name in topics),
        logs=tuple(
            LogEntry(topic=tp.topic, partition=0, topic_id="", start=0, end=end)
            for tp, end in ((IN, 4), (RAW, 4), (LOG, 2), (SETS, 2))
        ),
        external=(),
    )
    it = World(cluster, log, admin, store, manifest)
    it.change()
    return it


STEPS = ("topics", "author", "quiet", "channels", "state", "read back", "compare", "groups", "done")


class CrashError(Exception):
    """The tool is killed here."""


def killed() -> None:
    raise CrashError


def when(step: str, do: Callable[[], object] = killed) -> Callable[[str], object]:
    """What happens before a step; by default the tool is killed."""
    return lambda at: do() if at == step else None


def with_inputs(world: World, *ranges: tuple[str, int, int]) -> None:
    """Store what lay unread in these ranges: 2 and 5 of `in` are external, all of `raw`."""
    found = [("in", 2, b"two, external"), ("in", 5, b"five, external")]
    found += [("raw", offset, b"%d" % offset) for offset in range(9)]
    inputs = [
        stored(topic, offset, b"e", value, ("from", b"outside"))
        for topic, offset, value in found
        if any(topic == t and start <= offset < end for t, start, end in ranges)
    ]
    world.store.manifest_path("friday").unlink()
    again = write_snapshot(world.store, "friday", EPOCH, state=STATE, messages=MESSAGES, inputs=inputs)
    world.change(
        tables=again.tables,
        external=(ExternalEntry(topic="in", mixed=True), ExternalEntry(topic="raw", mixed=False)),
        stored=tuple(ReadEntry(topic=t, partition=0, start=s, end=e) for t, s, e in ranges),
    )


def delete(system: System, topic: TopicPartition, below: int) -> None:
    """Let retention delete records."""
    system.admin.starts = {**system.admin.starts, topic: below}
    system.log.starts = system.admin.starts


WINDOWS = TopicPartition("app-w-changelog", 0)
