"""Two apps in a row, two workers each, under load: see `aligned_app`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from snapkafka import ops
from snapkafka.demo import System, wait_until
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, read_ledger
from snapkafka.ops import Details
from snapkafka.protocol import Captured
from snapkafka.testing import create_topics

KEYS: Final = [f"k{n}" for n in range(20)]
PARTITIONS: Final = 2


@dataclass
class Load:
    """Records that are sent until the end of a test, so many a second. `burst`: so many more at once."""

    bootstrap: str
    topic: str
    rate: int
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self.run)
        self.passed = self.burst = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        while not self.stopped.wait(0.01):
            more, self.burst = self.burst, 0
            for _ in range(max(1, self.rate // 100) + more):
                key = KEYS[self.passed % len(KEYS)]
                producer.produce(self.topic, b"1", key=key.encode())
                self.sent[key] += 1
                self.passed += 1
            producer.poll(0)
        assert producer.flush(30) == 0


@dataclass
class Two:
    """The two apps."""

    system: System
    id: str

    @property
    def where(self) -> Connection:
        return Connection(bootstrap=self.system.bootstrap)

    def start(self, role: str, slow_s: float = 0.0) -> None:
        env = {"ALIGNED_ROLE": role, "ALIGNED_ID": self.id, "ALIGNED_SLOW_S": str(slow_s)}
        self.system.start_worker(f"{self.id}-{role}", env, module="tests.driver.aligned_app")

    def snapshot(self, name: str, *, align: bool = True, align_timeout_ms: int = 0) -> Details:
        """Take a snapshot, and wait until it is captured."""

        async def take() -> Details:
            await ops.trigger(
                self.where,
                self.system.namespace,
                snapshot_id=name,
                align=align,
                align_timeout_ms=align_timeout_ms,
                ttl_ms=30_000,
                wait=True,
            )
            return await ops.show(self.where, self.system.namespace, name)

        return asyncio.run(take())

    def ready(self, processes: int) -> bool:
        """Return whether so many processes have joined, and each has its partition: no rebalance is to come."""
        try:
            ledger = asyncio.run(read_ledger(self.where, self.system.namespace)).state
        except LedgerUnusableError:
            return False  # nobody has made it yet
        living = list(ledger.living())
        return len(living) == processes and all(len(view.inputs) == 1 for view in living)


@contextmanager
def two(bootstrap: str, namespace: str, folder: Path, *, slow_s: float) -> Iterator[Two]:
    name = f"aligned-{namespace}"
    create_topics(bootstrap, f"{name}-in", f"{name}-middle", partitions=PARTITIONS)
    tables = [f"{name}-{role}-counts-changelog" for role in ("front", "back")]
    create_topics(bootstrap, *tables, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
    system = System(bootstrap=bootstrap, namespace=namespace, folder=folder)
    apps = Two(system, name)
    try:
        for _ in range(2):
            apps.start("front")
            apps.start("back", slow_s)
        wait_until("the workers", lambda: apps.ready(4), timeout_s=150, system=system)
        yield apps
    finally:
        system.stop()


def in_flight(captured: Captured) -> int:
    """Count offsets between the positions and the ends of what was sent in white."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    for sent in captured.senders:
        place = sent.topic, sent.partition
        ends[place] = max(ends[place], sent.white_end)
    return sum(max(0, ends[cut.topic, cut.partition] - cut.position) for cut in captured.inputs)


def counted(bootstrap: str, changelog: str) -> dict[str, int]:
    """Return the table of a changelog: the last value of each key."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counted", "enable.auto.commit": False})
    found: dict[str, int] = {}
    try:
        for partition in range(PARTITIONS):
            _, end = consumer.get_watermark_offsets(TopicPartition(changelog, partition), 10)
            consumer.assign([TopicPartition(changelog, partition, 0)])
            at = 0
            while at < end:
                message = consumer.poll(10)
                assert message is not None and message.error() is None
                at = (message.offset() or 0) + 1
                found[json.loads(message.key())] = json.loads(message.value())
    finally:
        consumer.close()
    return found
