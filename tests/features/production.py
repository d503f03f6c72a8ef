"""A small production, and everything of it that nobody else may change."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.testing import create_topics

from .harness import produce, read_topics

RECORDS: Final = 40


def set_up(bootstrap: str, prefix: str) -> None:
    """Create topics `in` and `out`, records in the first, and a group `shop` that stands in its middle."""
    create_topics(bootstrap, f"{prefix}in", f"{prefix}out", partitions=1)
    values = [json.dumps(f"v{number}").encode() for number in range(RECORDS)]
    produce(bootstrap, f"{prefix}in", [("k", value, None) for value in values])

    async def commit() -> None:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as admin:
            middle = {TopicPartition(f"{prefix}in", 0): RECORDS // 2}
            await admin.commit_positions(f"{prefix}shop", middle, "")

    asyncio.run(commit())


def fingerprint(bootstrap: str, prefix: str) -> dict[str, Any]:
    """What production consists of, by aspect; without what belongs to forks."""

    async def everything() -> dict[str, Any]:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as tools:
            described = await tools.describe_topics()
            topics = {name: it.partitions for name, it in described.items() if name.startswith(prefix)}
            tps = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
            groups = [it for it in await tools.groups() if it.name.startswith(prefix)]
            return {
                "ends": await tools.log_ends(tps),
                "starts": await tools.log_starts(tps),
                "topics": topics,
                "settings": {name: await tools.topic_settings(name) for name in topics},
                "groups": sorted((it.name, sorted(map(repr, it.members))) for it in groups),
                "commits": {it.name: await tools.committed(it.name) for it in groups},
            }

    return {"records": read_topics(bootstrap, prefix), **asyncio.run(everything())}
