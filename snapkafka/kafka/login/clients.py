"""The clients of aiokafka that snapkafka makes. None of them creates a topic by asking for it.

A broker creates what an ordinary client asks for (`auto.create.topics.enable`, on by default), with its own settings: a
deleted changelog would come back with `cleanup.policy=delete`. aiokafka has no setting against it.
"""

from __future__ import annotations

import random
from types import MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.metadata import MetadataRequest

from .connection import Connection


def consumer(connection: Connection, **settings: Any) -> Any:
    """Return a consumer that is still to be started."""
    made: Any = AIOKafkaConsumer(**settings, **connection.client_settings())
    return _creating_nothing(made, made._client)


def producer(connection: Connection, **settings: Any) -> Any:
    """Return a producer that is still to be started. It fails for a topic that does not exist."""
    made: Any = AIOKafkaProducer(**settings, **connection.client_settings())
    return _creating_nothing(made, made.client)


def admin_client(connection: Connection) -> Any:
    """Return an admin client that is still to be started. It asks for single topics only by requests of our own."""
    made: Any = AIOKafkaAdminClient(**connection.client_settings())
    return _creating_nothing(made, made._client)


def _creating_nothing(made: Any, client: Any) -> Any:
    client._metadata_update = MethodType(_update_metadata, client)
    return made


async def _update_metadata(client: Any, cluster: Any, topics: Any) -> bool:
    """Do what `AIOKafkaClient._metadata_update` does, by a request that creates no topic."""
    request = MetadataRequest(list(topics) if topics else None, allow_auto_topic_creation=False)
    nodes = [broker.nodeId for broker in client.cluster.brokers()] or ["bootstrap"]
    random.shuffle(nodes)
    for node in nodes:
        connection = await client._get_conn(node)
        if connection is None:
            continue
        try:
            metadata = await connection.send(request)
        except (errors.KafkaError, TimeoutError):
            continue
        if not metadata.brokers:
            return False
        cluster.update_metadata(metadata)
        return True
    cluster.failed_update(None)
    return False
