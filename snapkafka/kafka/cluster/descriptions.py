"""Topics as the cluster has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from snapkafka.ports import Topic

#: The bit of the rights in an answer that stands for DESCRIBE, in Kafka's numbering of operations.
DESCRIBE_BIT: Final = 8
#: Settings of topics, with the names that a broker has for their defaults.
BROKER_NAMES: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
}
#: Older names of the retention, and their units.
RETENTION_UNITS_MS: Final = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}


def may_describe(cluster: Any) -> bool:
    """Return whether an answer about the cluster shows that we see everything, every consumer group above all."""
    return not cluster.error and bool(cluster.rights >> DESCRIBE_BIT & 1)


def descriptions(response: Any) -> tuple[dict[str, Topic], dict[str, int]]:
    """Return the topics of a response, and the error codes of those that cannot be described."""
    # Partitions without a leader (code 5) are counted all the same: they come back.
    found = {
        topic.name: Topic(
            partitions=len(topic.partitions),
            topic_id=topic.id.hex(),
            replicas=min((len(each.replicas) for each in topic.partitions), default=0),
            leader_epoch=next((each.epoch for each in topic.partitions if each.number == 0), -1),
        )
        for topic in response.topics
        if not topic.error
    }
    return found, {topic.name: topic.error for topic in response.topics if topic.error}


def default_settings(broker: Mapping[str, str | None]) -> dict[str, str]:
    """Translate the settings of a broker to those of a topic that is created without any."""
    found = {name: value for name, of in BROKER_NAMES.items() if (value := broker.get(of)) is not None}
    for of, unit_ms in RETENTION_UNITS_MS.items():
        if "retention.ms" not in found and (value := broker.get(of)) is not None:
            found["retention.ms"] = str(max(-1, int(value) * unit_ms))
    return found
