"""What any driver states of its process and its topics in `Hello` (R11), and how its own clients connect."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import Security
from snapkafka.ports import Topic
from snapkafka.protocol import Hello, InputTopic, Retention, Table
from snapkafka.topic_config import promised_by
from snapkafka.units import DAY_MS
from snapkafka.version import __version__

#: Nobody has to look after it, and a snapshot can be assembled for a week.
SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}


def connection_to(bootstrap: str, security: Mapping[str, Any]) -> Connection:
    """Return the connection for clients of our own: by `SNAPKAFKA_KAFKA_*` if set, else by what the app's own clients
    have as `security`."""
    if settings := Security.from_environment(os.environ):
        return Connection.secured(bootstrap, settings)
    return Connection(bootstrap=bootstrap, security=security)


def hello_from_here(app: str, **facts: Any) -> Hello:
    """Return the `Hello` of this process of the operating system."""
    return Hello(n=0, app=app, host=socket.gethostname(), pid=os.getpid(), release=__version__, **facts)


def input_of(topic: str, found: Topic, key_codec: str, value_codec: str) -> InputTopic:
    """Describe an input as the cluster has it."""
    codecs = {"key_codec": key_codec, "value_codec": value_codec}
    return InputTopic(topic=topic, partitions=found.partitions, topic_id=found.topic_id, **codecs)


async def open_changelog(admin: Any, table: Table) -> tuple[Table, Retention]:
    """Create the changelog of a table that the driver keeps itself, where it is missing; return the table with its id,
    and how long records are kept.

    Raises:
        BadInputError: it has another number of partitions.
        SnapkafkaError: Kafka cannot be used.
    """
    name = table.changelog
    await admin.create_topic(name, partitions=table.partitions, settings=SETTINGS)
    described = (await admin.describe_topics([name]))[name]
    if described.partitions != table.partitions:
        raise BadInputError(
            f"changelog {name} has {described.partitions} partitions, the inputs have {table.partitions}",
            hint="give it as many partitions as the inputs",
        )
    settings, _ = await admin.topic_settings(name)
    return replace(table, topic_id=described.topic_id), promised_by(name, settings)
