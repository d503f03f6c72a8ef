"""The verbs and the command on a real broker, with processes that speak the protocol and do nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.ops.pruning import snapshots_in_use
from snapkafka.protocol import Fork, Restore, Status
from snapkafka.units import wall_ms
from tests.kafka.processes import process


@pytest.fixture
async def topic(connection: Connection, topic_prefix: str) -> AsyncIterator[str]:
    admin = KafkaTopicAdmin(connection)
    await admin.create_topic(f"{topic_prefix}orders")
    yield f"{topic_prefix}orders"
    await admin.close()


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
        assert await ledger.start() == found.upto == found.records > 3
        with pytest.raises(LedgerUnusableError, match=r"\b0\b"):
            await anext(ledger.read(0))
        assert await ops.list_snapshots(connection, namespace) == listed
        assert (await ops.show(connection, namespace, "before")).processes == shown.processes
        after = await ops.trigger(connection, namespace, snapshot_id="after", wait=True)
        assert after.status is Status.CAPTURED
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
