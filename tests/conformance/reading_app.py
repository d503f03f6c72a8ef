"""A loop that reads numbers, one library each: `python -m tests.conformance.reading_app LIBRARY`.

It writes each number down, and seeks forward where one says "seek TO".
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Partition
from confluent_kafka import TopicPartition

import snapkafka
from snapkafka.clients import participant
from snapkafka.drivers import Consumer

WHERE, GROUP, TOPIC = (os.environ[f"READING_{name}"] for name in ("WHERE", "GROUP", "TOPIC"))
SEEN = Path(os.environ["READING_SEEN"])


def see(offset: int, value: bytes) -> int | None:
    """Write it down; return where to go on, if that is elsewhere."""
    with SEEN.open("a") as out:
        out.write(f"{offset}\n")
    return int(value[5:]) if value.startswith(b"seek ") else None


def confluent() -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": WHERE,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    part = participant(consumer=consumer, inputs=[TOPIC])
    signal.signal(signal.SIGTERM, lambda *_: part.stop())
    with part:
        for message in part.poll():
            with part.event(message):
                to = see(message.offset(), message.value())
            consumer.commit(message, asynchronous=False)
            if to is not None:
                consumer.seek(TopicPartition(TOPIC, message.partition(), to))
    consumer.close()


async def aiokafka() -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=WHERE, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        part = participant(consumer=consumer, inputs=[TOPIC])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, part.stop)
        async with part:
            async for message in part.poll():
                place = Partition(message.topic, message.partition)
                async with part.event(message):
                    to = see(message.offset, message.value)
                await consumer.commit({place: message.offset + 1})
                if to is not None:
                    consumer.seek(place, to)


def faust_app() -> None:
    app = faust.App(GROUP, broker=f"kafka://{WHERE}", store="memory://", topic_disable_leader=True)
    snapkafka.install(app)

    @app.agent(app.topic(TOPIC, value_serializer="raw"))
    async def read(stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            see(event.message.offset, event.value)

    sys.argv = [sys.argv[0], "worker", "--without-web", "--loglevel", "info"]
    app.main()


if __name__ == "__main__":
    match sys.argv[1]:
        case "confluent":
            confluent()
        case "aiokafka":
            asyncio.run(aiokafka())
        case _:
            faust_app()
