"""Rebalances of plain loops: no record is lost, and none is processed by two members.

Those of aiokafka run beside the loop, those of confluent-kafka while it polls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from snapkafka.drivers.plain.aio_loop import AioParticipant
from snapkafka.drivers.plain.aio_sends import AioSends
from snapkafka.drivers.plain.running_events import Events
from snapkafka.drivers.plain.settle import SendOutcomes
from snapkafka.drivers.plain.transactions import Transactions
from snapkafka.errors import BadInputError
from snapkafka.protocol import TopicPartition as OurPartition
from tests.unit.drivers.test_plain import ORDERS as OURS
from tests.unit.drivers.test_plain import Driver

ORDERS = TopicPartition("orders", 0)
CHANGELOG = OurPartition("billing-owed-changelog", 0)


@dataclass(frozen=True)
class Message:
    """A record of the input, without headers."""

    offset: int
    topic: str = ORDERS.topic
    partition: int = ORDERS.partition
    key: bytes = b"ann"
    value: bytes = b"1"
    headers: tuple[Any, ...] = ()


class Input:
    """The only partition of a consumer: how many records it has, and which is fetched next."""

    def __init__(self, consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end, self.position, self.done = 0, 0, 0
        self.more = asyncio.Event()
        self.asked = asyncio.Event()
        for name in ("seek", "committed"):
            monkeypatch.setattr(consumer, name, getattr(self, name))
        monkeypatch.setattr(consumer, "_coordinator", SimpleNamespace(generation=1, member_id="a"))

    async def getone(self) -> Message:
        self.asked.set()
        while self.position >= self.end:
            self.more.clear()
            await self.more.wait()
        self.position += 1
        return Message(self.position - 1)

    def append(self) -> None:
        self.end += 1
        self.more.set()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.position = offset

    async def committed(self, tp: TopicPartition) -> int:
        return self.done


@asynccontextmanager
async def loop_of(
    monkeypatch: pytest.MonkeyPatch, revoked: list[int], **more: Any
) -> AsyncIterator[tuple[AioParticipant, Input]]:
    """Yield a participant without snapshots, and its input."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers="127.0.0.1:1", group_id="billing", enable_auto_commit=False, **more
    )
    part = participant(
        namespace="shop", consumer=consumer, inputs=["orders"], on_revoke=lambda tps: revoked.append(len(tps))
    )
    part.host.absent = "is disabled"
    source = Input(consumer, monkeypatch)
    monkeypatch.setattr(part, "_getone", source.getone)
    yield part, source


async def test_a_record_that_arrives_for_a_fetch_from_before_a_rebalance_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loop_of(monkeypatch, []) as (part, source):
        await part.on_assigned([ORDERS])
        fetched = asyncio.ensure_future(anext(part.poll(quiet_s=2)))
        await source.asked.wait()
        await part.on_revoked([ORDERS])
        await part.on_assigned([ORDERS])
        source.append()
        assert (await fetched).offset == 0


async def test_a_revocation_waits_until_the_loop_has_committed_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    revocations: list[int] = []
    async with loop_of(monkeypatch, revocations) as (part, source):
        await part.on_assigned([ORDERS])
        source.append()
        messages = part.poll(quiet_s=0.5)
        async with part.event(await anext(messages)):
            revoking = asyncio.ensure_future(part.on_revoked([ORDERS]))
            await asyncio.wait({revoking}, timeout=0.3)
            assert not revoking.done() and not revocations, "it is in an event"
        await asyncio.wait({revoking}, timeout=0.3)
        assert not revoking.done() and not revocations, "its position is not committed"
        source.done = 1
        assert [message async for message in messages] == []
        await revoking
        assert revocations == [1]


async def test_a_record_that_takes_longer_than_the_group_waits_is_left_to_another_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The change that it still makes stays out of the changelog: another member has read that, and writes there."""
    async with loop_of(monkeypatch, [], rebalance_timeout_ms=400) as (part, source):
        table, changes = Table("owed", default=int), []
        table.bind(
            part.host, "billing", events=part.events, send=lambda *c: changes.append(c), before=lambda: None
        )
        await part.on_assigned([ORDERS])
        source.append()
        async with part.event(await anext(part.poll(quiet_s=0.5))):
            await asyncio.wait_for(part.on_revoked([ORDERS]), 2)
            with pytest.raises(BadInputError, match="is not assigned to this event"):
                table["ann"] = 1
        assert changes == []


def test_a_revocation_of_confluents_waits_for_the_events_of_threads() -> None:
    """An event that goes on would write to a table that was read again meanwhile."""
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    seen: list[str] = []
    part = participant(
        namespace="shop", consumer=consumer, inputs=["orders"], on_revoke=lambda *_: seen.append("revoked")
    )
    part.host.absent = "is disabled"
    part.events.hand_out(OURS, 0)
    event = part.event(Message(0))
    entered = threading.Event()

    def work() -> None:
        with event:
            entered.set()
            time.sleep(0.3)
            seen.append("processed")

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    part._revoked(consumer, [])
    thread.join()
    assert seen == ["processed", "revoked"]


def test_a_table_of_two_inputs_is_refused_where_their_partitions_may_go_to_two_members() -> None:
    """Both would write to one partition of the changelog."""
    clients: dict[str, Any] = {
        "consumer": Consumer(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "group.id": "billing",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "roundrobin",
                "log_level": 0,
            }
        ),
        "producer": Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}),
    }
    with pytest.raises(BadInputError, match="table owed needs equal partitions of all inputs"):
        participant(namespace="shop", inputs=["orders", "refunds"], state=Table("owed"), **clients)
    participant(namespace="shop", inputs=["orders"], state=Table("owed"), **clients)


@pytest.mark.parametrize("revoked", [True, False])
def test_a_transaction_in_which_inputs_were_revoked_is_not_committed(revoked: bool) -> None:
    """The broker would take it: the member has joined the group again, and names its new generation."""
    driver = Driver()
    transactions = Transactions(
        driver, events=Events(driver), outcomes=SendOutcomes(driver), fenced=lambda error: False
    )
    transactions.began()
    transactions.committed()
    transactions.revoked()
    transactions.began()
    if not revoked:
        transactions.require_kept()
        return
    transactions.revoked()
    with pytest.raises(BadInputError, match="inputs were revoked in this transaction"):
        transactions.require_kept()
    transactions.aborted()
    transactions.began()
    transactions.require_kept()


def test_confluents_commit_is_refused_before_the_broker_gets_it() -> None:
    producer, driver = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), Driver()
    producer.transactions = Transactions(
        driver, events=Events(driver), outcomes=SendOutcomes(driver), fenced=lambda error: False
    )
    producer.transactions.began()
    producer.transactions.revoked()
    with pytest.raises(BadInputError, match="inputs were revoked in this transaction"):
        producer.commit_transaction(0.1)


class Log:
    """A producer of aiokafka whose records are in a list."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    async def send(self, topic: str, **record: Any) -> asyncio.Future[Any]:
        self.sent.append((topic, record))
        future = asyncio.get_running_loop().create_future()
        future.set_result(SimpleNamespace(offset=len(self.sent) - 1))
        return future

    async def send_batch(self, *arguments: Any) -> None:
        raise AssertionError("it was sent")


def sends_of(driver: Driver) -> tuple[AioSends, Events, Log]:
    events, log = Events(driver), Log()
    sends = AioSends(
        driver,
        log,
        stamps=driver.stamps,
        waiting=driver.waiting,
        events=events,
        outcomes=SendOutcomes(driver),
    )
    sends.attach()
    return sends, events, log


async def test_changes_that_wait_at_a_revocation_never_reach_the_changelog() -> None:
    driver = Driver()
    sends, events, log = sends_of(driver)
    events.hand_out(OURS, 0)
    cause = events.claim(OURS, 0)
    token = events.enter(cause)
    sends.change(CHANGELOG, b"ann", b"1")
    sends.forget_changes()
    with pytest.raises(BadInputError, match="revoked before the changes"):
        await sends.send_changes()
    events.leave(token)
    events.end(cause)
    assert not driver.machine.colours.busy, "nothing more is awaited of them"
    assert log.sent == []


async def test_r15_a_fault_of_ours_leaves_a_change_of_the_table_to_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    sends, _, log = sends_of(driver)

    def fault(*_: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(driver.machine, "send_entered", fault)
    sends.change(CHANGELOG, b"ann", b"1")
    await sends.send_changes()
    assert log.sent == [("billing-owed-changelog", {"key": b"ann", "value": b"1", "partition": 0})]
    assert "record a send" in driver.absent


async def test_a_batch_is_refused_because_its_records_would_have_no_stamps() -> None:
    sends, _, log = sends_of(Driver())
    with pytest.raises(BadInputError, match="send_batch is not supported in a participant"):
        await log.send_batch(object(), "invoices")
    sends.detach()
    with pytest.raises(AssertionError, match="it was sent"):
        await log.send_batch(object(), "invoices")
