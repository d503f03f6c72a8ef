"""A loop that reads numbers: `python -m tests.conformance.reading_app LIBRARY BOOTSTRAP TOPIC FILE`.

It writes the offset of each into the file, and seeks forward where one says "seek TO".
"""

from __future__ import annotations

import asyncio
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

LIBRARY, BOOTSTRAP, TOPIC, SEEN = sys.argv[1:]
SETTINGS = {
    "bootstrap_servers": BOOTSTRAP,
    "group_id": TOPIC,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
}


def see(offset: int, value: bytes) -> int | None:
    """Write it down; return where to go on, if that is elsewhere."""
    with Path(SEEN).open("a") as out:
        out.write(f"{offset}\n")
    return int(value[5:]) if value.startswith(b"seek ") else None


def confluent() -> None:
    consumer = Consumer({name.replace("_", "."): value for name, value in SETTINGS.items()})
    part = participant(consumer=consumer, inputs=[TOPIC])
    signal.signal(signal.SIGINT, lambda *_: part.stop())
    with part:
        for message in part.poll():
            with part.event(message):
                to = see(message.offset(), message.value())
            consumer.commit(message, asynchronous=False)
            if to is not None:
                consumer.seek(TopicPartition(TOPIC, message.partition(), to))
    consumer.close()


async def aiokafka() -> None:
    async with AIOKafkaConsumer(**SETTINGS) as consumer:
        part = participant(consumer=consumer, inputs=[TOPIC])
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, part.stop)
        async with part:
            async for message in part.poll():
                place = Partition(message.topic, message.partition)
                async with part.event(message):
                    to = see(message.offset, message.value)
                await consumer.commit({place: message.offset + 1})
                if to is not None:
                    consumer.seek(place, to)


def in_faust() -> None:
    app = faust.App(TOPIC, broker=f"kafka://{BOOTSTRAP}", store="memory://", topic_disable_leader=True)
    snapkafka.install(app)

    @app.agent(app.topic(TOPIC, value_serializer="raw"))
    async def read(stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            see(event.message.offset, event.value)

    sys.argv[1:] = ["worker", "--without-web", "--loglevel", "info"]
    app.main()


if LIBRARY == "aiokafka":
    asyncio.run(aiokafka())
else:
    {"confluent": confluent, "faust": in_faust}[LIBRARY]()
