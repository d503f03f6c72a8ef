"""`topics create`: create topics before the workers start, which do not see those created later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic. `created`: False where it existed before; then nothing was changed, its settings neither."""

    topic: str
    created: bool
    partitions: int


async def create_topics(
    where: Connection | Cluster,
    names: Collection[str],
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
) -> tuple[CreatedTopic, ...]:
    """Create topics, and wait until they are visible. If one is refused, create none.

    Args:
        settings: by Kafka's names.
    """
    async with administration(where) as admin:
        for name, topic in (await admin.describe_topics(names)).items():
            if topic.partitions != partitions:
                raise BadInputError(
                    f"{partitions}: topic {name} exists with {topic.partitions}",
                    hint="nothing was created; take its number, or another name",
                    field="partitions",
                )
        for name in names:
            await admin.create_topic(name, partitions=partitions, settings=settings, validate_only=True)
        created = {
            name: await admin.create_topic(name, partitions=partitions, settings=settings) for name in names
        }
    return tuple(CreatedTopic(topic=it, created=new, partitions=partitions) for it, new in created.items())
