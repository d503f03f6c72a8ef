"""The verbs and the command on a real broker, with processes that speak the protocol and do nothing else."""

from __future__ import annotations

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import Status
from snapkafka.units import wall_ms
from tests.kafka.processes import process


async def test_a_ledger_is_trimmed_and_snapshots_go_on(
    connection: Connection, admin: KafkaTopicAdmin, namespace: str, topic_prefix: str
) -> None:
    """Under a process that runs; another joins where the ledger begins now, and nothing is said otherwise."""
    ledger, topic = KafkaLedger(connection, namespace), f"{topic_prefix}orders"
    await admin.create_topic(topic)
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
