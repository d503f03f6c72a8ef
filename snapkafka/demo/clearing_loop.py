"""The `clearing` service as a plain loop with confluent-kafka, for `make demo ARGS=--mixed`.

python -m snapkafka.demo.clearing_loop
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from snapkafka.clients import Consumer, Producer, Table, participant
from snapkafka.demo.settings import CREDITS, TRANSFERS

GROUP = "clearing"


def main() -> None:
    """Clear transfers until SIGINT; SIGUSR1 makes it request a snapshot."""
    broker = {"bootstrap.servers": os.environ["SNAPKAFKA_BOOTSTRAP"]}
    consumer = Consumer(
        broker
        | {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    # Faust's partitioner, so that a key has one partition for both services.
    producer = Producer(broker | {"enable.idempotence": True, "partitioner": "murmur2_random"})
    passed = Table("passed", default=int)
    part = participant(consumer=consumer, producer=producer, inputs=[TRANSFERS], state=passed)

    def ask(*_: Any) -> None:
        part.trigger(who=f"{GROUP} loop {os.getpid()}")

    signal.signal(signal.SIGINT, lambda *_: part.stop())
    signal.signal(signal.SIGUSR1, ask)
    with part:
        for message in part.poll():
            with part.event(message):
                transfer = json.loads(message.value())
                passed[message.key().decode()] += transfer["amount"]
                time.sleep(0.004)  # a look-up somewhere
                producer.produce(CREDITS, message.value(), message.key())
            producer.flush()
            consumer.commit(message)
    consumer.close()


if __name__ == "__main__":
    main()
