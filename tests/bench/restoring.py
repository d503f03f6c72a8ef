"""What a restore costs: beside the plainest writers of the same records (Spark's sink, a producer), and beside Faust's
own recovery.

`BENCH_ROWS` (5 million), `BENCH_MESSAGES` (1 million) and `BENCH_RTO_KEYS` (200,000) say how many there are.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from snapkafka import ops
from snapkafka.assembly import session
from snapkafka.checks import ReadRange
from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord
from snapkafka.protocol import TopicPartition
from snapkafka.query import Placed
from snapkafka.recovery import records_of_state, rows_of_state
from snapkafka.recovery.appending import Author, read_back
from snapkafka.recovery.channels import Channel, append_channels
from snapkafka.recovery.state import Touched
from snapkafka.store import LocalStore
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.wire import headers as wire
from tests.bench.building import LEDGER, PARTITIONS, TOPIC, Shop
from tests.bench.figures import Figure, figure

ROWS: Final = int(os.environ.get("BENCH_ROWS", "5000000"))
RTO_KEYS: Final = int(os.environ.get("BENCH_RTO_KEYS", "200000"))
MESSAGES: Final = int(os.environ.get("BENCH_MESSAGES", "1000000"))
PAIRS: Final = 3
LEDGER_ID: Final = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
PROCESS: Final = 1_000


def bench_restore_rows() -> list[Figure]:
    """Rows a second of state that a restore appends, by those of Spark's bare Kafka sink for the same rows."""
    ours_s: list[float] = []
    spark_s: list[float] = []
    back_s: list[float] = []
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        session(offsets=ROWS) as spark,
    ):
        create_topics(broker.bootstrap, TOPIC, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
        shop = Shop(broker.bootstrap, LocalStore(Path(folder)), spark)
        shop.write(range(ROWS), epoch=0)
        manifest, _ = shop.assemble(shop.captured("cut", epoch=10))
        placed = Placed(shop.store, manifest)
        cuts = {TopicPartition(it.topic, it.partition): it for it in manifest.captured.changelogs}
        files = [str(path) for path in sorted((shop.store.root / manifest.id).rglob("state/**/*.parquet"))]
        assert files
        bulk = KafkaBulk(Connection(bootstrap=broker.bootstrap))

        def ours(topic: str) -> None:
            author = Author(PROCESS, 10, LEDGER_ID)
            found = {TopicPartition(topic, tp.partition): cut for tp, cut in cuts.items()}
            rows = (row._replace(tp=TopicPartition(topic, row.tp.partition)) for row in rows_of_state(placed))
            records = records_of_state(rows, Touched(), found, set(found))
            bulk.append(map(author.stamped, records))
            began = time.monotonic()
            ends = {tp: written.records for tp, written in author.written.items()}
            assert sum(ends.values()) == ROWS
            read_back(bulk, author, [ReadRange(*tp, 0, end) for tp, end in ends.items()])
            back_s.append(time.monotonic() - began)

        def bare(topic: str) -> None:
            rows = spark.read.parquet(*files).selectExpr("key_raw AS key", "value_raw AS value", "partition")
            sink = rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
            sink.option("topic", topic).save()

        for pair in range(PAIRS):
            for kind in ("ours", "bare") if pair % 2 else ("bare", "ours"):
                topic = f"{kind}-{pair}"
                create_topics(broker.bootstrap, topic, partitions=PARTITIONS)
                began = time.monotonic()
                (ours if kind == "ours" else bare)(topic)
                seconds = time.monotonic() - began
                (ours_s if kind == "ours" else spark_s).append(
                    seconds - (back_s[-1] if kind == "ours" else 0)
                )
    return [
        figure(
            "restore_rows_ratio",
            [bare / own for own, bare in zip(ours_s, spark_s, strict=True)],
            "ratio",
            bar=0.5,
            at_most=False,
        ),
        figure("restore_rows_s", [ROWS / own for own in ours_s], "rows/s"),
        figure("restore_read_back_share", [b / own for b, own in zip(back_s, ours_s, strict=True)], "ratio"),
    ]


def messages() -> Iterator[KafkaRecord]:
    """Messages in flight of about 200 bytes, with a header and a time of their own, ordered by partition."""
    rng = random.Random(1985)
    for n in range(MESSAGES):
        partition = n * PARTITIONS // MESSAGES
        value = b'{"order": %d, "at": "%0150x"}' % (n, rng.getrandbits(500))
        yield KafkaRecord(
            "in", partition, n, b'"%d"' % n, value, (("trace", b"%016x" % n),), 1_700_000_000_000 + n
        )


def bench_restore_messages() -> list[Figure]:
    """Messages in flight a second that a restore appends, by those of a bare ordered producer with delivery reports."""
    ours_s: list[float] = []
    bare_s: list[float] = []
    records = list(messages())
    channels = [
        Channel(tp, tuple(record for record in records if record.tp == tp))
        for tp in (TopicPartition("in", partition) for partition in range(PARTITIONS))
    ]
    with EmbeddedKafka() as broker:
        bulk = KafkaBulk(Connection(bootstrap=broker.bootstrap))

        def ours(topic: str) -> None:
            named = (
                Channel(
                    channel.tp._replace(topic=topic),
                    tuple(record._replace(topic=topic) for record in channel.records),
                )
                for channel in channels
            )
            moved = append_channels(bulk.append, Author(PROCESS, 10, LEDGER_ID), named)
            assert sum(map(len, moved.values())) == MESSAGES

        for pair in range(PAIRS):
            for kind in ("ours", "bare") if pair % 2 else ("bare", "ours"):
                topic = f"{kind}-{pair}"
                create_topics(broker.bootstrap, topic, partitions=PARTITIONS)
                began = time.monotonic()
                if kind == "ours":
                    ours(topic)
                else:
                    bare_producer(broker.bootstrap, topic, records)
                (ours_s if kind == "ours" else bare_s).append(time.monotonic() - began)
    return [
        figure(
            "restore_messages_ratio",
            [bare / own for own, bare in zip(ours_s, bare_s, strict=True)],
            "ratio",
            bar=0.7,
            at_most=False,
        ),
        figure("restore_messages_s", [MESSAGES / own for own in ours_s], "msg/s"),
    ]


def bare_producer(bootstrap: str, topic: str, records: list[KafkaRecord]) -> None:
    """Produce in order, with a header of the same size as ours besides the record's own, and count the reports."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    acknowledged = 0

    def report(error: object, message: object) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    stamp = (wire.HEADER, wire.stamp(LEDGER_ID, 0, 10, PROCESS, 0))
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=[*record.headers, stamp],
                    timestamp=record.timestamp_ms,
                    on_delivery=report,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert acknowledged == len(records)


# --- The whole way ----------------------------------------------------------------------------------------------------


def bench_restore_rto() -> list[Figure]:
    """Seconds from the command until a worker has caught up, by those of a worker that recovers the same state."""
    restored_s: list[float] = []
    own_s: list[float] = []
    command_s: list[float] = []
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        observing(broker.bootstrap, f"b{uuid.uuid4().hex[:8]}") as observer,
    ):
        shop = _Counting(broker.bootstrap, observer, Path(folder))
        try:
            shop.start()
            observer.wait_for_workers(shop.system)
            shop.feed(range(RTO_KEYS))
            shop.await_outputs(RTO_KEYS)
            shop.snapshot("cut")
            shop.feed(range(0, RTO_KEYS, 20))
            shop.await_outputs(RTO_KEYS // 20)
            shop.stop()
            for pair in range(PAIRS):
                for kind in ("restored", "own") if pair % 2 else ("own", "restored"):
                    began = time.monotonic()
                    if kind == "restored":
                        shop.restore("cut")
                        command_s.append(time.monotonic() - began)
                    shop.start()
                    shop.feed([0])
                    shop.await_outputs(shop.fed - RTO_KEYS if kind == "restored" else 1)
                    (restored_s if kind == "restored" else own_s).append(time.monotonic() - began)
                    shop.stop()
        finally:
            shop.system.stop()
    return [
        figure(
            "restore_rto_ratio",
            [ours / own for ours, own in zip(restored_s, own_s, strict=True)],
            "ratio",
            bar=1.5,
        ),
        figure("restore_rto_s", restored_s, "s"),
        figure("restore_command_s", command_s, "s"),
        figure("own_recovery_s", own_s, "s"),
    ]


class _Counting:
    """A worker that counts in a table in memory and sends an output for each record, and its input."""

    def __init__(self, bootstrap: str, observer: Observer, folder: Path) -> None:
        self.app = f"rto-{uuid.uuid4().hex[:8]}"
        self.observer = observer
        self.system = System(bootstrap=bootstrap, namespace=observer.namespace, folder=folder)
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.out = TopicPartition(f"{self.app}-out", 0)
        self.fed = 0
        self._seen = 0
        create_topics(bootstrap, f"{self.app}-in", self.out.topic, partitions=1)
        create_topics(
            bootstrap, f"{self.app}-counts-changelog", partitions=1, config={"cleanup.policy": "compact"}
        )

    def start(self) -> None:
        self.system.start_worker(self.app, {"BUSY_APP_ID": self.app}, module="tests.bench.busy_app")

    def stop(self) -> None:
        """In order, and until the group has no member; what is in `out` by then is not waited for again."""
        self.system.stop()
        wait_until(
            "the group to be empty",
            lambda: self.observer.call(self.observer.admin.members(self.app)) == 0,
            timeout_s=90,
        )
        self._seen = self._end()

    def feed(self, keys: Iterable[int]) -> None:
        producer = Producer({"bootstrap.servers": self.system.bootstrap, "linger.ms": 20})
        for key in keys:
            while len(producer) > 50_000:
                producer.poll(0.1)
            producer.produce(f"{self.app}-in", b'{"n": 1}', b"key-%d" % key, 0)
            self.fed += 1
        assert producer.flush(60) == 0

    def await_outputs(self, count: int) -> None:
        """Wait for so many more."""
        wait_until(
            f"{count} outputs",
            lambda: self._end() >= self._seen + count,
            timeout_s=600,
            system=self.system,
            period_s=0.05,
        )
        self._seen = self._end()

    def snapshot(self, name: str) -> None:
        connection, namespace = Connection(bootstrap=self.system.bootstrap), self.observer.namespace
        asyncio.run(
            ops.trigger(
                connection, namespace, snapshot_id=name, storage=str(self.storage), ttl_ms=30_000, wait=True
            )
        )
        self._seen = self._end()  # its markers lie there, too
        (assembled,) = asyncio.run(
            ops.assemble(connection, ops.JobSpec(namespace=namespace, snapshots=(name,)))
        )
        assert assembled.verdict == "VERIFIED", assembled.checks

    def restore(self, name: str) -> None:
        where = ("--bootstrap", self.system.bootstrap, "--namespace", self.observer.namespace)
        subprocess.run(
            [sys.executable, "-m", "snapkafka", "restore", name, "--yes", *where],
            check=True,
            capture_output=True,
            timeout=600,
        )

    def _end(self) -> int:
        return self.observer.call(self.observer.admin.log_ends([self.out]))[self.out]
