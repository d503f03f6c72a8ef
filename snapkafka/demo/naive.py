"""The naive reading, without snapshots: read the tables, read the lag, add up.

Each partition is read to its end as it is now, one after the other, while the system runs; the messages in flight are
those between the committed offsets and the ends. Every number is true at its own moment, and the sum is not: a
transfer may be seen in two places or in none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from snapkafka.demo.settings import CREDITS, PARTITIONS, TRANSFERS, changelog
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.to_end import records_to_end
from snapkafka.protocol.records import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Naive:
    """The sums of a naive reading."""

    in_tables: int
    in_flight: int

    @property
    def total(self) -> int:
        return self.in_tables + self.in_flight


async def read_naively(connection: Connection) -> Naive:
    """Read the balances as their changelogs end now, and the messages between committed offsets and ends."""
    balances: dict[bytes, int] = {}
    async for _, record in records_to_end(connection, _starts(changelog("accounts", "balances"))):
        balances[record.key] = 0 if record.value is None else json.loads(record.value)
    in_flight = 0
    async with KafkaTopicAdmin(connection) as admin:
        for topic, group in ((TRANSFERS, "clearing"), (CREDITS, "accounts")):
            committed = {
                tp: at for tp, (at, _) in (await admin.committed(group)).items() if tp.topic == topic
            }
            async for _, record in records_to_end(connection, _starts(topic) | committed):
                if record.value is not None:
                    in_flight += json.loads(record.value)["amount"]
    return Naive(in_tables=sum(balances.values()), in_flight=in_flight)


def _starts(topic: str) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}
