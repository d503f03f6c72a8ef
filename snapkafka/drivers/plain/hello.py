"""What a loop states about itself when it joins: its inputs, and its table with the changelog (R11)."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snapkafka.errors import BadInputError
from snapkafka.protocol.records import Hello, InputTopic
from snapkafka.protocol.records import Table as TableFact
from snapkafka.version import __version__

from ..changelog import open_changelog
from .table import Table

if TYPE_CHECKING:
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin


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
    tables: tuple[Any, ...] = ()
    if table is not None:
        counts = {topic.partitions for topic in topics}
        if len(counts) != 1:
            raise BadInputError(
                f"table {table.name} needs inputs of one number of partitions, not {sorted(counts)}",
                hint="a write goes to the changelog partition of its event: create the inputs alike",
            )
        fact = TableFact(
            name=table.name,
            changelog=table.changelog,
            partitions=counts.pop(),
            key_codec="json",
            value_codec="json",
            copartitioned=True,
            kind="Table",
        )
        tables = await open_changelog(admin, fact)
    return Hello(
        n=0,
        app=group,
        host=socket.gethostname(),
        pid=os.getpid(),
        release=__version__,
        mode=mode,
        inputs=topics,
        tables=tables[:1],
        retention=tables[1:],
        reset=reset if inputs else "",
    )
