"""What a loop states about itself when it joins: its inputs, and its table with the changelog (R11)."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import Hello, InputTopic, Retention
from snapkafka.protocol.records import Table as TableFact
from snapkafka.topic_config import promised_by
from snapkafka.units import DAY_MS
from snapkafka.version import __version__

from .table import Table

if TYPE_CHECKING:
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin

#: Of a changelog that is created here: a snapshot can be assembled for a week.
CHANGELOG_SETTINGS: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}


async def hello_of(
    admin: KafkaTopicAdmin, group: str, inputs: Sequence[str], table: Table | None, *, reset: str, mode: str
) -> Hello:
    """Return the `Hello` of a loop. The changelog of its table is created where it is missing.

    Raises:
        BadInputError: an input does not exist, or has another number of partitions than the others or the changelog.
        SnapkafkaError: Kafka cannot be used.
    """
    described = await admin.describe_topics(list(inputs)) if inputs else {}
    if missing := sorted(set(inputs) - described.keys()):
        raise BadInputError(f"there is no topic {missing[0]}", hint="create it first")
    topics = tuple(
        InputTopic(
            topic=topic,
            partitions=described[topic].partitions,
            topic_id=described[topic].topic_id,
            key_codec="raw",
            value_codec="raw",
        )
        for topic in inputs
    )
    tables: tuple[TableFact, ...] = ()
    retention: tuple[Retention, ...] = ()
    if table is not None:
        tables, retention = await _table(admin, table, {topic.partitions for topic in topics})
    return Hello(
        n=0,
        app=group,
        host=socket.gethostname(),
        pid=os.getpid(),
        release=__version__,
        mode=mode,
        inputs=topics,
        tables=tables,
        retention=retention,
        reset=reset if inputs else "",
    )


async def _table(
    admin: KafkaTopicAdmin, table: Table, counts: set[int]
) -> tuple[tuple[TableFact, ...], tuple[Retention, ...]]:
    if len(counts) != 1:
        raise BadInputError(
            f"table {table.name} needs inputs of one number of partitions, not {sorted(counts)}",
            hint="a write goes to the changelog partition of its event: create the inputs alike",
        )
    (partitions,) = counts
    await admin.create_topic(table.changelog, partitions=partitions, settings=CHANGELOG_SETTINGS)
    described = (await admin.describe_topics([table.changelog]))[table.changelog]
    if described.partitions != partitions:
        raise BadInputError(
            f"changelog {table.changelog} has {described.partitions} partitions, the inputs have {partitions}",
            hint="give it as many partitions as the inputs",
        )
    holding: Any
    holding, _ = await admin.topic_settings(table.changelog)
    fact = TableFact(
        name=table.name,
        changelog=table.changelog,
        partitions=partitions,
        key_codec="json",
        value_codec="json",
        topic_id=described.topic_id,
        copartitioned=True,
        kind="Table",
    )
    return (fact,), (promised_by(table.changelog, holding),)
