"""A service of the scenarios that is exactly-once, with confluent-kafka; it aborts one transaction in five."""

from __future__ import annotations

import os
import signal
import sys
from typing import cast

from snapkafka.clients import Consumer, Producer, Table, participant
from tests.conformance.money import Names, Role, partition_of, process


def main(role: Role) -> None:
    names, where = Names.from_environment(), {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
    group = {"group.id": names.app(role), "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(where | group | {"isolation.level": "read_committed"})
    producer = Producer(where | {"transactional.id": names.app(role)})
    producer.init_transactions(30)
    table, number = Table(names.table(role), default=int), 0
    part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)
    signal.signal(signal.SIGTERM, lambda *_: part.stop())
    with part:
        while not part.stopping:
            done = 0
            for message in part.poll(quiet_s=0.1):
                if not done:
                    producer.begin_transaction()
                with part.event(message):
                    key = message.key().decode()
                    sent = process(names, role, message.topic(), key, int(message.value()), table)
                    if sent is not None:
                        producer.produce(sent[0], str(sent[1]), key, partition_of(key))
                if (done := done + 1) == 10:
                    break
            if not done:
                continue
            number += 1
            if number % 5 == 0:
                producer.flush()  # librdkafka fails to abort what the broker has not begun
                producer.abort_transaction()
                part.rewind()
                continue
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction()
    consumer.close()


if __name__ == "__main__":
    main(cast(Role, sys.argv[1]))
