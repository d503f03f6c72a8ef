"""A service of the scenarios with confluent-kafka: `python -m tests.conformance.confluent_app ROLE`."""

from __future__ import annotations

import os
import signal
import sys
from typing import cast

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from tests.conformance.damage import damage
from tests.conformance.money import Names, Role, partition_of, process


def main(role: Role) -> None:
    names, where = Names.from_environment(), {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
    group = {"group.id": names.app(role), "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(where | group | {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500})
    producer = Producer(where | {"enable.idempotence": True, "linger.ms": 2})
    table = Table(names.table(role), default=int)
    part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)
    signal.signal(signal.SIGTERM, lambda *_: part.stop())
    with part:
        for message in part.poll():
            with part.event(message):
                key = message.key().decode()
                sent = process(names, role, message.topic(), key, int(message.value()), table)
                if sent is not None:
                    producer.produce(sent[0], str(sent[1]), key, partition_of(key))
            producer.flush()
            consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    damage()
    main(cast(Role, sys.argv[1]))
