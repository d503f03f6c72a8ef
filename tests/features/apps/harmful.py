"""Do to production what its clients can, one thing after another; print for each whether it was refused. Every kind of
request: tests/unit/kafka/test_fork_requests.py.

With SNAPKAFKA_FORK an app is installed first. `python -m tests.features.apps.harmful`, with FEATURES_BROKER and
FEATURES_PREFIX.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest
from confluent_kafka import Producer

import snapkafka
from snapkafka.errors import ForkIsolationError

BROKER, P = os.environ["FEATURES_BROKER"], os.environ["FEATURES_PREFIX"]
IN = TopicPartition(f"{P}in", 0)


async def with_admin(do: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BROKER)
    await admin.start()
    try:
        await do(admin)
    finally:
        await admin.close()


async def ask(request: Any) -> None:
    """Send a request as it is, to the broker that is in charge of the group."""

    async def do(admin: AIOKafkaAdminClient) -> None:
        await admin._send_request(request, await admin.find_coordinator(f"{P}shop"))

    await with_admin(do)


async def write() -> None:
    async with AIOKafkaProducer(bootstrap_servers=BROKER) as producer:
        await producer.send_and_wait(f"{P}out", b"written")


async def write_in_a_transaction() -> None:
    transactional = AIOKafkaProducer(bootstrap_servers=BROKER, transactional_id=f"{P}shop-0-0")
    async with transactional as producer, producer.transaction():
        await producer.send_and_wait(f"{P}out", b"in a transaction")


async def read() -> None:
    async with AIOKafkaConsumer(bootstrap_servers=BROKER) as reader:
        reader.assign([IN])
        await reader.seek_to_beginning()
        assert await reader.getmany(timeout_ms=10_000)


async def join_the_group() -> None:
    async with AIOKafkaConsumer(
        IN.topic, bootstrap_servers=BROKER, group_id=f"{P}shop", enable_auto_commit=False
    ) as reader:
        assert await reader.getmany(timeout_ms=20_000)


async def native_write() -> None:
    producer = Producer({"bootstrap.servers": BROKER, "log_level": 0})
    producer.produce(f"{P}out", b"native")
    assert producer.flush(20) == 0


SETTINGS = ConfigResource(ConfigResourceType.TOPIC, IN.topic, {"retention.ms": "987654321"})
COMMIT = OffsetCommitRequest(f"{P}shop", -1, "", -1, [(IN.topic, [(0, 3, "")])])

HARM: dict[str, Callable[[], Awaitable[Any]]] = {
    "write": write,
    "write in a transaction": write_in_a_transaction,
    "read": read,
    "join the group": join_the_group,
    "commit by a request": lambda: ask(COMMIT),
    "create": lambda: with_admin(lambda admin: admin.create_topics([NewTopic(f"{P}new", 1, 1)])),
    "alter settings": lambda: with_admin(lambda admin: admin.alter_configs([SETTINGS])),
    "delete records": lambda: with_admin(lambda admin: admin.delete_records({IN: RecordsToDelete(5)})),
    "confluent-kafka writes": native_write,
    "delete the group": lambda: ask(DeleteGroupsRequest([f"{P}shop"])),
    "delete a topic": lambda: with_admin(lambda admin: admin.delete_topics([f"{P}out"])),
}


def _refusal(error: BaseException | None) -> ForkIsolationError | None:
    """What was refused; a consumer of aiokafka that stops right after its start raises another error behind it."""
    while error is not None and not isinstance(error, ForkIsolationError):
        error = error.__context__
    return error


def main() -> None:
    app = faust.App("harmful", broker=f"kafka://{BROKER}")
    if "SNAPKAFKA_FORK" in os.environ:
        snapkafka.install(app, namespace="ns")
    for name, do in HARM.items():
        try:
            asyncio.run(do())  # type: ignore[arg-type]  # each is a coroutine
        except BaseException as error:
            found = _refusal(error)
            print(f"{name}: refused: {found.message}" if found else f"{name}: failed: {error!r}", flush=True)
        else:
            print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
