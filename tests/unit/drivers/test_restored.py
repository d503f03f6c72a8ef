"""What a restore asks of a worker (docs/explanation/protocol.md, "Restore"), without Kafka: Faust's parts are fakes."""

from __future__ import annotations

import asyncio
from collections import UserDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import faust
import pytest
import rocksdict
from aiokafka.errors import GroupAuthorizationFailedError, InconsistentGroupProtocolError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.types import TP

import snapkafka
from snapkafka.drivers.faust import restores
from snapkafka.drivers.faust.tables.changelogs import Tables
from snapkafka.errors import InstallError
from snapkafka.protocol import (
    RESTORE,
    AgentPosition,
    Hello,
    LogEnd,
    Restore,
    TopicId,
    TopicPartition,
)
from snapkafka.wire import headers as wire
from tests.unit.drivers.producing import Driver
from tests.unit.drivers.test_incoming import conductor_of

IN, CHANGELOG = TP("in", 0), TP("counts-changelog", 0)
BASE = 10


def restore(
    driver: Any,
    *positions: tuple[str, int, tuple[int, ...]],
    plan: str = "r",
    origin: str = "",
) -> int:
    """App p is restored; the bases of its input and its changelog are `BASE`. Returns the author."""
    ends = tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=BASE) for tp in (IN, CHANGELOG))
    driver.append(
        Restore(n=driver.number(), plan=plan, stage="begun", snapshot="s", apps=("p",), origin=origin)
    )
    driver.append(Hello(n=driver.number(), app="snapkafka-restore", mode=RESTORE))
    author = len(driver.ledger) - 1
    driver.append(Restore(n=driver.number(), plan=plan, stage="begun", author=author))
    driver.append(
        Restore(
            n=driver.number(),
            plan=plan,
            stage="done",
            author=author,
            ends=ends,
            topics=(TopicId(topic="in", topic_id="1"),),
            positions=tuple(
                AgentPosition(
                    app="p", agent=agent, topic="in", partition=0, offset=offset, started_above=above
                )
                for agent, offset, above in positions
            ),
        )
    )
    return author


class Worker(Driver):
    """A driver whose ledger is a list; what restores say is told to `restored` as the reader of the ledger does."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = set()
        self._waiters: list[asyncio.Future[None]] = []
        self.follower.changed = self.changed
        self.crashes: list[Exception] = []
        self.app.crash = self.crash
        self.app.consumer = SimpleNamespace(
            _unacked_messages=[], ack=lambda message: self.acked.append(message.offset)
        )
        self.acked: list[int] = []
        self.events = SimpleNamespace(reply_topics=set())
        self.tables: Any = SimpleNamespace(topics=set())
        self.numbers = 100

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def append(self, record: Any) -> None:
        super().append(record)
        if isinstance(record, Hello | Restore) and hasattr(self, "restored"):
            self.restored.ledger_read()
        for waiter in getattr(self, "_waiters", ()):
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def crash(self, error: Exception) -> None:
        self.crashes.append(error)

    def spawn(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        return task

    def about(self) -> dict[str, Any]:
        return {}


def record(offset: int, process: int | None = None, tp: TP = IN) -> Any:
    headers = []
    if process is not None:
        headers = [("_sk", wire.stamp(7, wire.tp_check(tp.topic, tp.partition), 0, process, 1))]
    return SimpleNamespace(
        topic=tp.topic, partition=0, tp=tp, offset=offset, headers=headers, key=b"k", value=b"v"
    )


# -- D1, D4, D5: tables ----------------------------------------------------------------


class Table(UserDict[Any, Any]):
    """A table in RocksDB, as far as `Tables` knows it."""

    name = "counts"
    is_global = False
    data: Any

    def __init__(self, folder: Path) -> None:
        self._dbs: dict[int, Any] = {}
        self.data = SimpleNamespace(partition_path=lambda p: folder / f"counts-{p}.db", _dbs=self._dbs)
        self.applied: list[int] = []

    def open(self, partition: int) -> Any:
        if partition not in self._dbs:
            options = rocksdict.Options(raw_mode=True)
            options.create_if_missing(True)
            self._dbs[partition] = rocksdict.Rdict(str(self.data.partition_path(partition)), options=options)
        return self._dbs[partition]

    def write(self, partition: int, key: bytes, value: bytes, offset: int) -> None:
        db = self.open(partition)
        db[key], db[b"offset"] = value, str(offset).encode()

    def persisted_offset(self, tp: Any) -> int | None:
        found = self.open(tp.partition).get(b"offset")
        return None if found is None else int(found)

    async def on_changelog_event(self, event: Any) -> None: ...

    on_rebalance = on_recovery_completed = on_changelog_event

    def apply_changelog_batch(self, batch: Any) -> None:
        self.applied += [event.message.offset for event in batch]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where Faust keeps tables."""
    made = tmp_path / "v1" / "tables"
    made.mkdir(parents=True)
    return made


def attached(worker: Any, table: Table, folder: Path) -> Tables:
    worker.app.tables = SimpleNamespace(values=lambda: [table], changelog_topics={CHANGELOG.topic})
    worker.app.conf.tabledir = folder
    sensors: Any = SimpleNamespace(attach_table=lambda table: None)
    reads: Any = SimpleNamespace(scan=None)
    worker.tables = Tables(worker, reads, sensors, worker.restored)
    worker.tables.attach()
    return cast(Tables, worker.tables)


def test_a_store_of_before_a_restore_is_removed_once_and_no_other(folder: Path) -> None:
    table = Table(folder)
    table.write(0, b"old", b"1", 4)
    table.write(1, b"other", b"2", 4)
    worker = Worker()
    restore(worker)
    attached(worker, table, folder)
    assert table.persisted_offset(CHANGELOG) is None
    assert table.persisted_offset(TP("counts-changelog", 1)) == 4, "it has no base: it is not of that restore"
    assert table.open(0).get(b"old") is None and table.open(1).get(b"other") == b"2"
    table.write(0, b"new", b"3", BASE - 1)  # recovered, and nothing was appended since
    table._dbs.clear()
    again = Worker()
    restore(again)
    attached(again, table, folder)
    assert table.persisted_offset(CHANGELOG) == BASE - 1, "it is not removed at every start"
    restore(again, plan="later")
    assert table.persisted_offset(CHANGELOG) is None


@pytest.mark.parametrize(("origin", "kept"), [("", True), ("a" * 32, False)])
def test_a_store_that_has_read_past_the_base_is_kept_unless_it_is_of_another_cluster(
    folder: Path, origin: str, kept: bool
) -> None:
    """The cluster is gone and the worker's disk is not: its offset is of a log that does not exist any more."""
    table = Table(folder)
    table.write(0, b"new", b"1", BASE)
    worker = Worker()
    restore(worker, origin=origin)
    attached(worker, table, folder)
    assert table.persisted_offset(CHANGELOG) == (BASE if kept else None)
    table.write(0, b"new", b"2", BASE)
    assert table.persisted_offset(CHANGELOG) == BASE, "it is of the time since"


def stamp(process: int, cause: int | None) -> wire.Stamp:
    return wire.Stamp(0, process, 1, cause=None if cause is None else (wire.topic_check("in"), 0, cause))


def test_effects_of_before_a_restore_are_no_replays(folder: Path) -> None:
    """Their offsets are of the input as it was: what is in flight stands at others now."""
    worker = Worker()
    author = restore(worker)
    tables = attached(worker, Table(folder), folder)
    tables.met(CHANGELOG, BASE - 1, stamp(0, 99))
    tables.met(CHANGELOG, BASE, stamp(author, None))
    assert tables.effects_until(TopicPartition("in", 0)) == 0
    tables.met(CHANGELOG, BASE + 1, stamp(author + 3, 12))
    assert tables.effects_until(TopicPartition("in", 0)) == 13


async def test_what_a_suspended_worker_wrote_into_a_changelog_is_not_applied(folder: Path) -> None:
    """Recovery reads it all the same: it waits for the end of the log."""
    worker, table, came = Worker(), Table(folder), []
    author = restore(worker)
    attached(worker, table, folder)

    async def take_in(message: Any) -> None:
        came.append(message.offset)

    conductor = SimpleNamespace(_build_handler=lambda tp, channels: take_in)
    conductor_of(worker, conductor)
    callback: Any = conductor._build_handler(CHANGELOG, {"a channel"})  # type: ignore[arg-type, unused-ignore]
    messages = [
        record(BASE, author, CHANGELOG),
        record(BASE + 1, 0, CHANGELOG),
        record(BASE + 2, author + 3, CHANGELOG),
    ]
    for message in messages:
        await callback(message)
    table.apply_changelog_batch([SimpleNamespace(message=message) for message in messages])
    assert came == [BASE, BASE + 1, BASE + 2]
    assert table.applied == [BASE, BASE + 2]
    assert worker.metrics.counts["ignored"]["before-a-restore"] == 1


# -- before it joins its group ----------------------------------------------------------------


class Group:
    """What the worker asks the broker of its group, which has no members."""

    def __init__(self) -> None:
        self.committed_here = dict[TopicPartition, tuple[int, str]]()

    async def group_members(self, group: str) -> tuple[()]:
        return ()

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        return self.committed_here


@pytest.fixture
async def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that has joined the ledger, and not its group."""
    monkeypatch.setattr(restores, "RETRY_S", 0.01)
    made: Any = Worker()
    made.loop, made.admin = asyncio.get_running_loop(), Group()
    return made


def rejoin(worker: Any) -> None:
    """At the commit point of a restore every process of its app has left."""
    worker.machine.process = len(worker.ledger)


def begin(worker: Any, plan: str = "r", app: str = "p") -> None:
    worker.append(Restore(n=worker.number(), plan=plan, stage="begun", snapshot="s", apps=(app,)))


def abort(worker: Any, plan: str = "r") -> None:
    worker.append(Restore(n=worker.number(), plan=plan, stage="aborted"))


@pytest.mark.parametrize("refused", [True, False])
async def test_a_worker_that_its_group_refuses_crashes_and_does_not_hang(
    caplog: pytest.LogCaptureFixture, refused: bool
) -> None:
    """aiokafka takes the refusal for final and ends the task that joins; Faust waits for an assignment for ever."""
    worker: Any = Worker()
    worker.loop = asyncio.get_running_loop()

    async def joins() -> None:
        raise KafkaError("of the routine") from (
            InconsistentGroupProtocolError() if refused else GroupAuthorizationFailedError()
        )

    task = asyncio.ensure_future(joins())
    restores.crash_if_refused(worker, SimpleNamespace(_coordinator=SimpleNamespace(_coordination_task=task)))
    await asyncio.wait([task])
    await asyncio.sleep(0.01)
    assert len(worker.crashes) == refused
    assert ("group p is held by a restore" in caplog.text) == refused


@pytest.mark.parametrize("seen", [True, False])
async def test_a_worker_whose_memory_is_older_than_a_restore_crashes(
    worker: Any, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """It was suspended. What it reads of the restore when it wakes up may be over by then: a checkpoint stands in the
    place of the records since."""
    restore(worker, plan="earlier")
    rejoin(worker)
    worker.admin.committed_here[TopicPartition("in", 0)] = (BASE, "")
    await worker.restored.await_turn(["in"])
    read = worker.restored.ledger_read
    read()
    begin(worker, plan="other", app="q")
    abort(worker, plan="other")
    assert not worker.tasks, "what was restored before it joined is what it runs on; others do not matter"
    if not seen:
        monkeypatch.setattr(worker.restored, "ledger_read", lambda: None)
    restore(worker, plan="later")
    read()
    await asyncio.wait(worker.tasks)
    assert len(worker.crashes) == 1


# -- D6: the one place that fails closed ----------------------------------------------------------------


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> dict[TopicPartition, tuple[int, str]]:
    """What the group of an app has committed, as its own connection shows it."""
    found = {TopicPartition("in", 0): (7, "")}

    class Admin:
        def __init__(self, connection: Any) -> None: ...

        async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
            return found

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(restores, "KafkaTopicAdmin", Admin)
    monkeypatch.setattr("snapkafka.drivers.faust.connection.connection_of", lambda app: None)
    return found


@pytest.mark.parametrize("absent", ["failed to start", ""])
async def test_a_worker_that_cannot_know_the_rules_does_not_start_on_offsets_of_a_restore(
    worker: Any, committed: dict[TopicPartition, tuple[int, str]], absent: str
) -> None:
    """Its agents would all start at the one offset that a group has."""
    worker.machine.process, worker.absent = None, absent
    worker.ledger = SimpleNamespace(topic="_snapkafka.n")
    await worker.restored.await_turn(["in"])
    committed[TopicPartition("in", 1)] = (7, "snapkafka:r")
    with pytest.raises(InstallError, match=r"set by a restore \(plan r\), and this worker"):
        await worker.restored.await_turn(["in"])


async def test_nor_does_one_that_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, committed: dict[TopicPartition, tuple[int, str]]
) -> None:
    monkeypatch.setenv("SNAPKAFKA", "off")
    app = faust.App("off-app", broker="kafka://localhost:1", store="memory://")
    assert snapkafka.install(app, namespace="n") is None
    await app.on_start()
    committed[TopicPartition("in", 1)] = (7, "snapkafka:r")
    with pytest.raises(InstallError, match=r"set by a restore \(plan r\), and SNAPKAFKA=off"):
        await app.on_start()


async def test_commits_carry_the_plan_as_long_as_agents_skip_records_above() -> None:
    worker, committed = Worker(), []
    worker.restored.scope(TopicPartition("in", 0))
    restore(worker, ("x", 12, ()), ("y", 10, ()))

    class Client:
        async def commit(self, offsets: Any = None) -> None:
            committed.append(offsets)

    client = Client()
    restores.keep_metadata(worker.restored, client)
    other = TP("other", 0)
    await client.commit({IN: OffsetAndMetadata(11, ""), other: OffsetAndMetadata(1, "")})
    await client.commit({IN: OffsetAndMetadata(12, "")})
    await client.commit()
    assert committed == [{IN: (11, "snapkafka:r"), other: (1, "")}, {IN: (12, "")}, None]
    assert worker.restored.commit_note({IN: 11}) == {IN: (11, "snapkafka:r")}, "as transactions have it"
