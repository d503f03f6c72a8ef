"""A service of the scenarios with confluent-kafka: `python -m tests.conformance.confluent_app ROLE`.

`CONFORMANCE_HOW`: "threads" process messages, and commit none; "stores": it stores offsets, and the consumer commits
these.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from zlib import crc32

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from tests.conformance.damage import damage
from tests.conformance.money import Names, Role, partition_of, process


def main(role: Role, how: str) -> None:
    stores = how == "stores"
    names, where = Names.from_environment(), {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
    group = {"group.id": names.app(role), "auto.offset.reset": "earliest"}
    commits = {"enable.auto.commit": stores, "enable.auto.offset.store": not stores}
    consumer = Consumer(where | group | commits | {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500})
    producer = Producer(where | {"enable.idempotence": True, "linger.ms": 2})
    table = Table(names.table(role), default=int)
    part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)
    signal.signal(signal.SIGTERM, lambda *_: part.stop())
    # The messages of a key stay in their order.
    pools = [ThreadPoolExecutor(1) for _ in range(4)] if how == "threads" else []

    def work(event: Any, message: Any) -> None:
        with event:
            assert not message.headers()
            key = message.key().decode()
            sent = process(names, role, message.topic(), key, int(message.value()), table)
            if sent is not None:
                producer.produce(sent[0], str(sent[1]), key, partition_of(key))

    with part:
        for message in part.poll():
            if pools:
                pools[crc32(message.key()) // 7 % len(pools)].submit(work, part.event(message), message)
                continue
            work(part.event(message), message)
            producer.flush()
            if stores:
                consumer.store_offsets(message)
            else:
                consumer.commit(message, asynchronous=False)
        for pool in pools:
            pool.shutdown()
    consumer.close()


if __name__ == "__main__":
    damage()
    main(cast(Role, sys.argv[1]), os.environ["CONFORMANCE_HOW"])
