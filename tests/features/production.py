"""A small production, and everything of it that nobody else may change."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from confluent_kafka.admin import AdminClient, ConfigResource

from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.testing import create_topics

from .harness import produce, read_topics

RECORDS: Final = 40
#: All that a fingerprint covers.
ASPECTS: Final = ("records", "ends", "starts", "topics", "settings", "groups", "commits")


def set_up(bootstrap: str, prefix: str) -> None:
    """Create topics `in` and `out`, records in the first, and a group `shop` that stands in its middle."""
    create_topics(bootstrap, f"{prefix}in", f"{prefix}out", partitions=1)

    produce(
        bootstrap,
        f"{prefix}in",
        [("k", json.dumps(f"v{number}").encode(), None) for number in range(RECORDS)],
    )

    async def commit() -> None:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as admin:
            await admin.commit_positions(
                f"{prefix}shop", {TopicPartition(f"{prefix}in", 0): RECORDS // 2}, ""
            )

    asyncio.run(commit())


def fingerprint(bootstrap: str, prefix: str) -> dict[str, Any]:
    """What production consists of, by aspect; without what belongs to forks."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = {
        name: len(it.partitions)
        for name, it in admin.list_topics(timeout=10).topics.items()
        if name.startswith(prefix)
    }
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(topics)]
    settings = {
        resource.name: sorted((name, entry.value) for name, entry in future.result(10).items())
        for resource, future in (admin.describe_configs(resources) if resources else {}).items()
    }

    async def logs() -> tuple[Any, Any, Any, Any]:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as tools:
            groups = sorted(
                (it.name, sorted(map(repr, it.members)))
                for it in await tools.groups()
                if it.name.startswith(prefix)
            )
            tps = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
            return (
                await tools.log_ends(tps),
                await tools.log_starts(tps),
                groups,
                {name: await tools.committed(name) for name, _ in groups},
            )

    ends, starts, groups, commits = asyncio.run(logs())
    records = read_topics(bootstrap, prefix)
    found = (records, ends, starts, topics, settings, groups, commits)
    return dict(zip(ASPECTS, found, strict=True))
