"""A service of the scenarios with confluent-kafka: `python -m tests.conformance.confluent_app ROLE`.

`CONFORMANCE_HOW`: "threads" process messages, and commit none; "stores": it stores offsets, and the consumer commits
these; "tx": it is exactly-once, with ten messages in a transaction; of `CONFORMANCE_ABORTS` (five) it aborts one.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from zlib import crc32

from confluent_kafka import KafkaException, TopicPartition

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from tests.conformance.damage import damage
from tests.conformance.money import Names, Role, partition_of, process, sought


class Loop:
    """The loop, and the transaction that is open in it."""

    def __init__(self, role: Role, how: str) -> None:
        self.role, self.how, self.names = role, how, Names.from_environment()
        app, where = self.names.app(role), {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
        group = {"group.id": app, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        commits = {"enable.auto.commit": how == "stores", "enable.auto.offset.store": how != "stores"}
        times = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        self.consumer = Consumer(where | group | commits | times)
        slot = {"transactional.id": f"{app}-{os.environ.get('CONFORMANCE_SLOT', '')}"}
        sends = slot if how == "tx" else {"enable.idempotence": True, "linger.ms": 2}
        self.producer = Producer(where | sends)
        self.table, self.number, self.open = Table(self.names.table(role), default=int), 0, False
        self.part = participant(
            consumer=self.consumer,
            producer=self.producer,
            inputs=self.names.inputs(role),
            state=self.table,
            on_revoke=lambda *_: self.abort(),
        )

    def work(self, event: Any, message: Any) -> None:
        with event:
            assert not message.headers()
            key = message.key().decode()
            sent = process(self.names, self.role, message.topic(), key, int(message.value()), self.table)
            if sent is not None:
                self.producer.produce(sent[0], str(sent[1]), key, partition_of(key))

    def run(self) -> None:
        # The messages of a key stay in their order.
        pools = [ThreadPoolExecutor(1) for _ in range(4)] if self.how == "threads" else []
        if self.how == "tx":
            self.producer.init_transactions(30)
        with self.part:
            while self.how == "tx" and not self.part.stopping:
                self.batch()
            self.abort()
            for message in self.part.poll():
                event = self.part.event(message)
                if pools:
                    pools[crc32(message.key()) // 7 % len(pools)].submit(self.work, event, message)
                    continue
                self.work(event, message)
                self.producer.flush()
                if self.how == "stores":
                    self.consumer.store_offsets(message)
                else:
                    self.consumer.commit(message, asynchronous=False)
                if (to := sought(message.value())) is not None:
                    self.consumer.seek(TopicPartition(message.topic(), message.partition(), to))
            for pool in pools:
                pool.shutdown()
        self.consumer.close()

    def abort(self) -> None:
        """Abort what is open."""
        if self.open:
            self.open = False
            self.producer.flush()  # librdkafka fails to abort what the broker has not begun
            self.producer.abort_transaction()

    def batch(self) -> None:
        """Process ten messages in one transaction; now and then one is aborted."""
        done = 0
        for message in self.part.poll(quiet_s=0.1):
            if not self.open:
                self.producer.begin_transaction()
                self.open = True
            self.work(self.part.event(message), message)
            if (done := done + 1) >= 10:
                break
        if not self.open:
            return
        self.number += 1
        try:
            if self.number % int(os.environ.get("CONFORMANCE_ABORTS", "5")):
                positions = self.consumer.position(self.consumer.assignment())
                self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata())
                self.producer.commit_transaction()
                self.open = False
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self.abort()
        self.part.rewind()


if __name__ == "__main__":
    damage()
    loop = Loop(cast(Role, sys.argv[1]), os.environ["CONFORMANCE_HOW"])
    signal.signal(signal.SIGINT, lambda *_: loop.part.stop())
    loop.run()
