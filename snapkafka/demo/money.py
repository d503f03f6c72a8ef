"""The money: in a snapshot, read with DuckDB from its Parquet tables, without any of our own code; and without a
snapshot, by the naive reading: read the tables, read the lag, add up.

There each partition is read to its end as it is now, one after the other, while the system runs; the messages in
flight are those between the committed offsets and the ends. Every number is true at its own moment, and the sum is
not: a transfer may be seen in two places or in none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from snapkafka.demo.settings import CREDITS, PARTITIONS, TRANSFERS, changelog
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.read import records_to_end
from snapkafka.protocol.records import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The money of a snapshot; `transfers` and `credits` are in flight, in either direction of the cycle."""

    in_tables: int
    in_flight: int
    transfers: int
    credits: int
    messages: int

    @property
    def total(self) -> int:
        return self.in_tables + self.in_flight


def count_money(manifest: Path) -> Money:
    """Add up a snapshot by the files that its manifest names."""
    import duckdb

    tables = json.loads(manifest.read_text("utf-8"))["tables"]
    files = {
        table["name"]: [str(manifest.parent / file["path"]) for file in table["files"]] for table in tables
    }

    with duckdb.connect() as database:
        (in_tables,) = database.execute(
            "SELECT COALESCE(SUM(CAST(value AS BIGINT)), 0) FROM read_parquet(?) WHERE table_name = 'balances'",
            [files["state"]],
        ).fetchall()[0]
        rows = database.execute(
            "SELECT topic, COUNT(*), SUM(CAST(json_extract_string(value, '$.amount') AS BIGINT))"
            " FROM read_parquet(?) GROUP BY topic",
            [files["messages"]],
        ).fetchall()
    amounts = {topic: int(amount) for topic, _, amount in rows}
    return Money(
        in_tables=int(in_tables),
        in_flight=sum(amounts.values()),
        transfers=amounts.get(TRANSFERS, 0),
        credits=amounts.get(CREDITS, 0),
        messages=sum(int(count) for _, count, _ in rows),
    )


async def read_naively(connection: Connection) -> int:
    """Add up the balances as their changelogs end now, and the messages between committed offsets and ends."""
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
    return sum(balances.values()) + in_flight


def _starts(topic: str) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}
