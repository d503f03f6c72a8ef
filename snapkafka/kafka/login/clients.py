"""The clients of aiokafka that snapkafka makes. None creates a topic by asking for it; each counts its requests.

A broker creates what an ordinary client asks for (`auto.create.topics.enable`, on by default), with its own settings: a
deleted changelog would come back with `cleanup.policy=delete`. aiokafka has no setting against it.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.metadata import MetadataRequest

from .connection import Connection


def consumer(connection: Connection, **settings: Any) -> Any:
    """Return a consumer that is still to be started."""
    made: Any = AIOKafkaConsumer(**settings, **connection.client_settings())
    return _patched(made, made._client, connection)


def producer(connection: Connection, **settings: Any) -> Any:
    """Return a producer that is still to be started. It fails for a topic that does not exist."""
    made: Any = AIOKafkaProducer(**settings, **connection.client_settings())
    return _patched(made, made.client, connection)


def admin_client(connection: Connection) -> Any:
    """Return an admin client that is still to be started. It asks for single topics only by requests of our own."""
    made: Any = AIOKafkaAdminClient(**connection.client_settings())
    return _patched(made, made._client, connection)


async def started(client: Any) -> Any:
    """Start a client and return it; stop it if that fails."""
    try:
        await client.start()
    except BaseException:
        await (client.close if isinstance(client, AIOKafkaAdminClient) else client.stop)()
        raise
    return client


def _patched(made: Any, client: Any, connection: Connection) -> Any:
    client._metadata_update = partial(_update_metadata, client, connection)
    client.send = partial(_send, client.send, connection)
    return made


async def _send(send: Any, connection: Connection, node: Any, request: Any, **options: Any) -> Any:
    """Do what `AIOKafkaClient.send` does, and count the request."""
    _count(connection, request)
    return await send(node, request, **options)


def _count(connection: Connection, request: Any) -> None:
    api, _, _ = type(request).__name__.partition("Request")
    connection.requests["ListOffsets" if api == "Offset" else api] += 1


async def _update_metadata(client: Any, connected: Connection, cluster: Any, topics: Any) -> bool:
    """Do what `AIOKafkaClient._metadata_update` does, by a request that creates no topic."""
    request = MetadataRequest(list(topics) if topics else None, allow_auto_topic_creation=False)
    nodes = [broker.nodeId for broker in client.cluster.brokers()] or ["bootstrap"]
    random.shuffle(nodes)
    for node in nodes:
        connection = await client._get_conn(node)
        if connection is None:
            continue
        try:
            _count(connected, request)
            metadata = await connection.send(request)
        except (errors.KafkaError, TimeoutError):
            continue
        if not metadata.brokers:
            return False
        cluster.update_metadata(metadata)
        return True
    cluster.failed_update(None)
    return False
