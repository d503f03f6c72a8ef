"""`topics create`: create topics before the workers start, which do not see those created later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.topic_config import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as it is now. `created`: False where it existed before; then nothing was changed. `other`: its own values
    of the settings that were asked for and that it does not have; empty text: it has no such setting."""

    topic: str
    created: bool
    partitions: int
    compacted: bool
    other: Mapping[str, str]


async def create_topics(
    where: Connection | Cluster,
    names: Collection[str],
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
) -> tuple[CreatedTopic, ...]:
    """Create topics, and wait until they are visible. If one is refused, create none.

    Topics that exist stay as they are.

    Args:
        settings: by Kafka's names.

    Raises:
        BrokerUnavailableError: no broker answers.
        LedgerUnusableError: unauthorized, or the broker refuses one, with its own reason.
    """
    wanted = settings or {}
    async with administration(where) as admin:
        for name in names:
            await admin.create_topic(name, partitions=partitions, settings=wanted, validate_only=True)
        created = {
            name: await admin.create_topic(name, partitions=partitions, settings=wanted) for name in names
        }
        described = await admin.describe_topics(created)
        found = []
        for name, is_new in created.items():
            now, _ = await admin.topic_settings(name)
            found.append(
                CreatedTopic(
                    topic=name,
                    created=is_new,
                    partitions=described[name].partitions,
                    compacted=TopicSettings.parse(now).compacts,
                    other={key: now.get(key, "") for key, value in wanted.items() if now.get(key) != value},
                )
            )
        return tuple(found)
