"""The changelog of a table that a driver keeps itself: that of a loop, or the state of a remote process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import Retention, Table
from snapkafka.topic_config import promised_by
from snapkafka.units import DAY_MS

#: Nobody has to look after it, and a snapshot can be assembled for a week.
SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}


async def open_changelog(admin: Any, table: Table) -> tuple[Table, Retention]:
    """Create the changelog of a table where it is missing; return the table with its id, and how long records are kept.

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
