"""Two more requests that aiokafka lacks: to change single settings of a topic, and to show the sizes of its logs.

`IncrementalAlterConfigs` changes the settings that it names and leaves the rest; the client's own `alter_configs`
resets every setting that it does not name. Both are sent in versions that Kafka 2.3 to 4.x know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Int64, Schema, String

from .wire_requests import OwnRequest

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

#: A topic, among the resources that have settings.
TOPIC: Final = 2
#: What is done to a setting, in Kafka's numbering.
SET: Final = 0
DELETE: Final = 1


class AlterTopicRequest(OwnRequest):
    """The request to change some settings of one topic.

    Args:
        changes: setting -> its new value; None removes a setting from the topic itself.
    """

    API_KEY, API_VERSION = 44, 0
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(
                        ("config_key", String("utf-8")),
                        ("operation", Int8),
                        ("config_value", String("utf-8")),
                    ),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )

    def __init__(self, topic: str, changes: Mapping[str, str | None]) -> None:
        configs = [(name, DELETE if value is None else SET, value) for name, value in changes.items()]
        super().__init__([(TOPIC, topic, configs)], False)


class LogDirsRequest(OwnRequest):
    """The request to one broker for the sizes of its partitions of a topic."""

    API_KEY, API_VERSION = 35, 1
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        (
            "log_dirs",
            Array(
                ("error_code", Int16),
                ("log_dir", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("topic", String("utf-8")),
                        (
                            "partitions",
                            Array(
                                ("partition", Int32),
                                ("size", Int64),
                                ("offset_lag", Int64),
                                ("is_future", Boolean),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )

    def __init__(self, topic: str, partitions: int) -> None:
        super().__init__([(topic, list(range(partitions)))])


def log_sizes(response: Any) -> dict[int, int]:
    """Return partition -> bytes on this broker; a replica that is being moved counts once."""
    return {
        partition: size
        for _, _, topics in response.log_dirs
        for _, partitions in topics
        for partition, size, _, is_future in partitions
        if not is_future
    }


def default_settings(broker: Mapping[str, str | None]) -> dict[str, str]:
    """Translate the settings of a broker to those of a topic that is created without any."""
    found = {name: value for name, of in BROKER_NAMES.items() if (value := broker.get(of)) is not None}
    for of, unit_ms in RETENTION_UNITS_MS.items():
        if "retention.ms" not in found and (value := broker.get(of)) is not None:
            found["retention.ms"] = str(max(-1, int(value) * unit_ms))
    return found
