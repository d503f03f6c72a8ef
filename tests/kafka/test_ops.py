"""The verbs and the command on a real broker, with processes that speak the protocol and do nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from snapkafka import ops
from snapkafka.errors import (
    LedgerUnusableError,
    SnapshotFailedError,
    UnknownSnapshotError,
)
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.ops.pruning import snapshots_in_use
from snapkafka.protocol import Dead, Fork, Hello, Restore, Status, Trigger
from snapkafka.units import wall_ms
from tests.kafka.processes import process


@pytest.fixture
async def topic(connection: Connection, topic_prefix: str) -> AsyncIterator[str]:
    admin = KafkaTopicAdmin(connection)
    await admin.create_topic(f"{topic_prefix}orders")
    yield f"{topic_prefix}orders"
    await admin.close()


async def test_a_snapshot_from_trigger_to_show(connection: Connection, namespace: str, topic: str) -> None:
    async with process(connection, namespace, topic) as me:
        found = await ops.trigger(connection, namespace, snapshot_id="s", wait=True)
        assert found.status is Status.CAPTURED
        assert found.capture_ms is not None
        assert 0 <= found.capture_ms < 2_000
        again = await ops.trigger(connection, namespace, snapshot_id="s", wait=True)
        assert again == found
        assert [item.id for item in await ops.list_snapshots(connection, namespace)] == ["s"]
        shown = await ops.show(connection, namespace, "s")
        assert [row.process for row in shown.processes] == [me]
        assert [(row.topic, row.position) for row in shown.positions] == [(topic, 0)]
        with pytest.raises(UnknownSnapshotError):
            await ops.show(connection, namespace, "t")
        (trigger,) = await triggers(connection, namespace)
        assert [(end.topic, end.end) for end in trigger.ends] == [(topic, 0)]


async def test_a_ledger_is_trimmed_and_snapshots_go_on(
    connection: Connection, namespace: str, topic: str
) -> None:
    """Under a process that runs; another joins where the ledger begins now, and nothing is said otherwise."""
    ledger = KafkaLedger(connection, namespace)
    async with process(connection, namespace, topic):
        await ops.trigger(connection, namespace, snapshot_id="before", wait=True)
        listed = await ops.list_snapshots(connection, namespace)
        shown = await ops.show(connection, namespace, "before")
        found = await ops.checkpoint(connection, namespace, now_ms=wall_ms() + 60_000, keep_ms=0)
        await ledger.open(create=False)
        assert await ledger.start() == found.upto == found.records > 4
        with pytest.raises(LedgerUnusableError, match=r"\b0\b"):
            await anext(ledger.read(0))
        assert await ops.list_snapshots(connection, namespace) == listed
        assert (await ops.show(connection, namespace, "before")).processes == shown.processes
        after = await ops.trigger(connection, namespace, snapshot_id="after", wait=True)
        assert after.status is Status.CAPTURED
    await ledger.close()


async def triggers(connection: Connection, namespace: str) -> list[Trigger]:
    ledger = KafkaLedger(connection, namespace)
    await ledger.open(create=False)
    found = [entry.record async for entry in ledger.read(until=await ledger.end())]
    await ledger.close()
    return [record for record in found if isinstance(record, Trigger)]


async def test_one_that_takes_too_long_fails_by_name_and_the_next_does_not_wait_for_the_dead(
    connection: Connection, namespace: str, topic: str
) -> None:
    ledger = KafkaLedger(connection, namespace)
    await ledger.open()
    dead = await ledger.append(Hello(n=1, app="shop", host="gone", pid=1))
    async with process(connection, namespace, topic):
        with pytest.raises(SnapshotFailedError, match=f"{dead}"):
            await ops.trigger(connection, namespace, ttl_ms=600, retries=0, wait=True)
        entries = [entry.record async for entry in ledger.read(until=await ledger.end())]
        assert [record.dead for record in entries if isinstance(record, Dead)] == [dead]
        assert (await ops.trigger(connection, namespace, wait=True)).status is Status.CAPTURED
    await ledger.close()


async def test_snapshots_that_open_restores_and_forks_need_are_read_from_their_ledgers(
    connection: Connection, namespace: str
) -> None:
    for of, record in (
        (namespace, Restore(n=1, plan="r", stage="begun", snapshot="restored", apps=("shop",))),
        (
            f"fork.staging.{namespace}",
            Fork(n=1, plan="f", fork="staging", source=namespace, snapshot="forked"),
        ),
    ):
        ledger = KafkaLedger(connection, of)
        await ledger.open()
        await ledger.append(record)
        await ledger.close()
    found = await snapshots_in_use(connection, [namespace, f"{namespace}-elsewhere"])
    assert found.unknown == {f"{namespace}-elsewhere"}
    assert found.why.keys() >= {"restored", "forked"}
