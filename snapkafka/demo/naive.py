"""The naive reading, without snapshots: read the tables, read the lag, add up.

Each partition is read to its end as it is now, one after the other, while the system runs; the messages in flight are
those between the committed offsets and the ends. Every number is true at its own moment, and the sum is not: a
transfer may be seen in two places or in none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from snapkafka.demo.settings import CREDITS, PARTITIONS, TRANSFERS, changelog


@dataclass(frozen=True, slots=True, kw_only=True)
class Naive:
    """The sums of a naive reading."""

    in_tables: int
    in_flight: int

    @property
    def total(self) -> int:
        return self.in_tables + self.in_flight


async def read_naively(bootstrap: str) -> Naive:
    """Read the balances as their changelogs end now, and the messages between committed offsets and ends."""
    balances: dict[bytes, int] = {}
    async for record in _read(bootstrap, changelog("accounts", "balances"), group=None):
        balances[record.key] = 0 if record.value is None else json.loads(record.value)
    in_flight = 0
    for topic, group in ((TRANSFERS, "clearing"), (CREDITS, "accounts")):
        async for record in _read(bootstrap, topic, group=group):
            if record.value is not None:
                in_flight += json.loads(record.value)["amount"]
    return Naive(in_tables=sum(balances.values()), in_flight=in_flight)


async def _read(bootstrap: str, topic: str, *, group: str | None) -> Any:
    """Read the records of a topic from the group's committed offsets (else from the start) to the present ends."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    tps = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer.assign(tps)
    await consumer.start()
    try:
        ends = await consumer.end_offsets(tps)
        for tp in tps:
            committed = await consumer.committed(tp) if group else None
            consumer.seek(tp, committed or 0)
        while any([await consumer.position(tp) < ends[tp] for tp in tps]):
            for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    if record.offset < ends[tp]:
                        yield record
    finally:
        await consumer.stop()
