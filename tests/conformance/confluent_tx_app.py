"""A service of the scenarios that is exactly-once, with confluent-kafka; it aborts one transaction in five."""

from __future__ import annotations

import os
import signal
import sys
from typing import cast

from confluent_kafka import KafkaException

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from tests.conformance.money import Names, Role, partition_of, process


class Loop:
    """The loop, and the transaction that is open in it."""

    def __init__(self, role: Role) -> None:
        self.role, self.names = role, Names.from_environment()
        where = {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
        app = self.names.app(role)
        group = {"group.id": app, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        times = {
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "isolation.level": "read_committed",
        }
        self.consumer = Consumer(where | group | times)
        slot = os.environ.get("CONFORMANCE_SLOT", "")
        self.producer = Producer(where | {"transactional.id": f"{app}-{slot}"})
        self.table, self.number, self.open = Table(self.names.table(role), default=int), 0, False
        self.part = participant(
            consumer=self.consumer,
            producer=self.producer,
            inputs=self.names.inputs(role),
            state=self.table,
            on_revoke=lambda *_: self.abort(),
        )

    def abort(self) -> None:
        """Abort what is open."""
        if self.open:
            self.open = False
            self.producer.flush()  # librdkafka fails to abort what the broker has not begun
            self.producer.abort_transaction()

    def run(self) -> None:
        self.producer.init_transactions(30)
        with self.part:
            while not self.part.stopping:
                self.batch()
            self.abort()
        self.consumer.close()

    def batch(self) -> None:
        """Process ten messages in one transaction; one in five is aborted."""
        done = 0
        for message in self.part.poll(quiet_s=0.1):
            if not self.open:
                self.producer.begin_transaction()
                self.open = True
            with self.part.event(message):
                key = message.key().decode()
                sent = process(self.names, self.role, message.topic(), key, int(message.value()), self.table)
                if sent is not None:
                    self.producer.produce(sent[0], str(sent[1]), key, partition_of(key))
            if (done := done + 1) >= 10:
                break
        if not self.open:
            return
        self.number += 1
        if self.number % 5 == 0:
            self.abort()
            self.part.rewind()
            return
        try:
            positions = self.consumer.position(self.consumer.assignment())
            self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata())
            self.producer.commit_transaction()
            self.open = False
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.abort()
            self.part.rewind()


def main(role: Role) -> None:
    loop = Loop(role)
    signal.signal(signal.SIGTERM, lambda *_: loop.part.stop())
    loop.run()


if __name__ == "__main__":
    main(cast(Role, sys.argv[1]))
