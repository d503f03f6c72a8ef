"""What a restore asks of a worker (docs/explanation/protocol.md, "Restore"), without Kafka: Faust's parts are fakes."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from aiokafka.structs import OffsetAndMetadata
from faust.types import TP

import snapkafka
from snapkafka.drivers import ledger
from snapkafka.drivers.faust import restores
from snapkafka.drivers.faust.tables.changelogs import Tables
from snapkafka.errors import InstallError
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.protocol import RESTORE, Hello, Restore, TopicPartition
from snapkafka.protocol.offsets import AgentPosition, TopicId
from snapkafka.wire import headers as wire
from tests.protocol.world import log_ends
from tests.unit.drivers.producing import Driver

IN, CHANGELOG = TP("in", 0), TP("counts-changelog", 0)
BASE = 10


def note(driver: Any, stage: Any, *, plan: str = "r", **more: Any) -> None:
    driver.append(Restore(n=driver.number(), plan=plan, stage=stage, **more))


def restore(driver: Any, *positions: tuple[str, int, tuple[int, ...]], plan: str = "r") -> int:
    """App p is restored; the bases of its input and its changelog are `BASE`. Returns the author."""
    note(driver, "begun", plan=plan, snapshot="s", apps=("p",))
    driver.append(Hello(n=driver.number(), app="snapkafka-restore", mode=RESTORE))
    author = len(driver.written) - 1
    note(driver, "begun", plan=plan, author=author)
    ends, ids = log_ends((IN, BASE), (CHANGELOG, BASE)), (TopicId(topic="in", topic_id="1"),)
    starts = tuple(
        AgentPosition(app="p", agent=agent, topic="in", partition=0, offset=offset, started_above=above)
        for agent, offset, above in positions
    )
    note(driver, "done", plan=plan, author=author, ends=ends, topics=ids, positions=starts)
    return author


class Worker(Driver):
    """A driver whose ledger is a list; what restores say is told to `restored` as the reader of the ledger does."""

    def __init__(self) -> None:
        super().__init__()
        self.crashes: list[Exception] = []
        self.app.crash = self.crash
        self.numbers = 100

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def write(self, record: Any) -> None:
        super().write(record)
        if isinstance(record, Hello | Restore):
            self.restored.ledger_read()

    async def crash(self, error: Exception) -> None:
        self.crashes.append(error)


# -- D1, D4: tables ----------------------------------------------------------------


def test_a_store_that_is_not_marked_since_a_restore_is_removed_once_and_no_other(tmp_path: Path) -> None:
    stores = [tmp_path / f"counts-{n}.db" for n in (0, 1)]
    for store in stores:
        (store / "data").mkdir(parents=True)
    data = SimpleNamespace(partition_path=lambda n: stores[n], _dbs={0: None, 1: None})
    table, worker = SimpleNamespace(name="counts", data=data), Worker()
    restore(worker)
    for _ in range(2):
        for partition in (0, 1):
            worker.restored.renew_store(table, TP("counts-changelog", partition))
        assert [(store / "data").exists() for store in stores] == [False, True], "the second has no base"
        stores[0].joinpath("data").mkdir()
        worker.restored.renew_store(table, CHANGELOG)
        assert (stores[0] / "data").exists(), "it is of the time since"
        restore(worker, plan="r2")


def test_effects_of_before_a_restore_are_no_replays() -> None:
    """Their offsets are of the input as it was: what is in flight stands at others now."""

    def stamp(process: int, cause: int | None) -> wire.Stamp:
        return wire.Stamp(0, process, 1, cause=None if cause is None else (wire.topic_check("in"), 0, cause))

    worker: Any = Worker()
    author = restore(worker)
    worker.reads = None
    tables = Tables(worker)
    tables.met(CHANGELOG, BASE - 1, stamp(0, 99))
    tables.met(CHANGELOG, BASE, stamp(author, None))
    assert tables.effects_until(TopicPartition("in", 0)) == 0
    tables.met(CHANGELOG, BASE + 1, stamp(author + 3, 12))
    assert tables.effects_until(TopicPartition("in", 0)) == 13


# -- before it joins its group ----------------------------------------------------------------


class Group(KafkaTopicAdmin):
    """What the worker asks the broker of its group, which has no members, by this connection or another one."""

    def __init__(self) -> None:
        self.commits = {TopicPartition("in", 0): (7, "")}

    async def group_members(self, group: str) -> Any:
        return ()

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        return self.commits

    async def close(self) -> None: ...


@pytest.fixture
async def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that has joined the ledger, and not its group."""
    made: Any = Worker()
    made.loop, made.admin = asyncio.get_running_loop(), Group()
    monkeypatch.setattr(restores, "KafkaTopicAdmin", lambda connection: made.admin)
    monkeypatch.setattr(restores, "connection_of", lambda app: None)
    return made


@pytest.mark.parametrize("seen", [True, False])
async def test_an_older_memory_crashes(worker: Any, monkeypatch: pytest.MonkeyPatch, seen: bool) -> None:
    """It was suspended. What it reads of the restore when it wakes up may be over by then: a checkpoint stands in the
    place of the records since."""
    restore(worker, plan="earlier")
    worker.machine.process = len(worker.written)  # at the commit point every process of its app has left
    await worker.restored.await_turn(["in"])
    read = worker.restored.ledger_read
    read()
    note(worker, "begun", plan="other", snapshot="s", apps=("q",))
    note(worker, "aborted", plan="other")
    assert not worker._tasks, "what was restored before it joined is what it runs on; others do not matter"
    if not seen:
        monkeypatch.setattr(worker.restored, "ledger_read", lambda: None)
    restore(worker, plan="later")
    read()
    await asyncio.wait(worker._tasks)
    assert len(worker.crashes) == 1


async def test_a_restore_is_not_awaited_for_ever(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RESTORED_WITHIN_S", 0.05)
    note(worker, "begun", snapshot="s", apps=("p",))
    with pytest.raises(InstallError):
        await asyncio.wait_for(worker.restored.await_turn(["in"]), 5)


# -- D6: the one place that fails closed ----------------------------------------------------------------


@pytest.mark.parametrize("why", ["failed to start", "", "off"])
async def test_d6_no_start_without_the_rules(worker: Any, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Its agents would all start at the one offset that a group has."""
    worker.machine.process, worker.absent = None, why
    worker.ledger = SimpleNamespace(topic="_snapkafka.n")
    start = partial(worker.restored.await_turn, ["in"])
    if why == "off":
        monkeypatch.setenv("SNAPKAFKA", "off")
        app = faust.App("off-app", broker="kafka://localhost:1", store="memory://")
        assert snapkafka.install(app, namespace="n") is None
        start = app.on_start
    await start()
    worker.admin.commits[TopicPartition("in", 1)] = (7, "snapkafka:r")
    with pytest.raises(InstallError) as refused:
        await start()
    assert refused.value.facts == {"plans": ["r"]}


async def test_commits_carry_the_plan_as_long_as_agents_skip_records_above() -> None:
    worker, committed = Worker(), []
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
