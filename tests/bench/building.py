"""What assembly costs where little has changed: an incremental snapshot next to a full one of the same moment.

`BENCH_KEYS` says how many keys there are (10 million); one in a hundred of them has changed since the parent.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import duckdb
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly import assemble as assemble_by_spark
from snapkafka.assembly import find_base, session
from snapkafka.checks import CutView, LogBounds
from snapkafka.manifest import Manifest
from snapkafka.manifest_entries import LedgerEntry
from snapkafka.protocol import Captured, ChangelogCut, ProcessCut, SenderEnd, TopicPartition
from snapkafka.store import LocalStore, state_parts, state_sql
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.wire import headers as wire
from tests.bench.figures import Figure, figure
from tests.spark.reading import settings_of

KEYS: Final = int(os.environ.get("BENCH_KEYS", "10000000"))
CHANGED: Final = 0.01
PARTITIONS: Final = 4
PAIRS: Final = 3
TOPIC: Final = "stock-changelog"
LEDGER: Final = LedgerEntry(topic="_snapkafka.bench", topic_id="5a" * 16)
PROCESS: Final = 1
ISOLATION: Final = "read_committed"


def bench_incremental() -> list[Figure]:
    """Seconds and bytes of an incremental assembly, at one changed key in a hundred, by those of the full one."""
    times, sizes, full_s, incremental_s = [], [], [], []
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        session(offsets=KEYS) as spark,
    ):
        create_topics(broker.bootstrap, TOPIC, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
        bench = Shop(broker.bootstrap, LocalStore(Path(folder)), spark)
        bench.write(range(KEYS), epoch=0)
        parent, _ = bench.assemble(bench.captured("parent", epoch=10))
        changed = random.Random(1985).sample(range(KEYS), int(KEYS * CHANGED))
        bench.write(changed, epoch=parent.epoch)
        for pair in range(PAIRS):
            found = {}
            for kind in ("full", "incremental") if pair % 2 else ("incremental", "full"):
                found[kind] = bench.assemble(bench.captured(f"{kind}-{pair}", epoch=20, type_=kind))
            (full, full_seconds), (incremental, seconds) = found["full"], found["incremental"]
            bench.require_same(full, incremental)
            times.append(seconds / full_seconds)
            sizes.append(bench.size(incremental) / bench.size(full))
            full_s.append(full_seconds)
            incremental_s.append(seconds)
            bench.forget(full, incremental)
    return [
        figure("incremental_time_ratio", times, "ratio", bar=0.25),
        figure("incremental_bytes_ratio", sizes, "ratio", bar=0.10),
        figure("incremental_s", incremental_s, "s"),
        figure("incremental_full_s", full_s, "s"),
    ]


class Shop:
    """One process that writes a table, and snapshots of it; nothing else, for the state is what grows."""

    def __init__(
        self, bootstrap: str, store: LocalStore | None = None, spark: SparkSession | None = None
    ) -> None:
        self.bootstrap, self._store, self._spark = bootstrap, store, spark
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 50,
                "queue.buffering.max.messages": 500_000,
            }
        )

    @property
    def store(self) -> LocalStore:
        assert self._store is not None, "nothing is stored here"
        return self._store

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None, "nothing is assembled here"
        return self._spark

    def write(self, keys: Iterable[int], *, epoch: int, pad: int = 0) -> None:
        """A new value of about 100 bytes (and `pad`) for each of these keys."""
        more = b"." * pad
        mark = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
        checks = [wire.tp_check(TOPIC, partition) for partition in range(PARTITIONS)]
        produce, poll = self._producer.produce, self._producer.poll
        for n, key in enumerate(keys):
            partition = key % PARTITIONS
            seq = self.ends[partition]
            header = wire.stamp(mark, checks[partition], epoch, PROCESS, seq)
            value = b'{"name": "item %d%s", "left": %d, "where": "%040x"}' % (
                key,
                more,
                seq % 1000,
                key * 7919 + epoch,
            )
            produce(TOPIC, value, b'"%d"' % key, partition, headers=[(wire.HEADER, header)])
            self.ends[partition] = seq + 1
            if n % 10_000 == 0:
                while len(self._producer) > 400_000:
                    poll(0.1)
                poll(0)
        assert self._producer.flush(120) == 0, "the broker did not take all records"

    def captured(self, name: str, *, epoch: int, type_: str = "full") -> Captured:
        """A snapshot of what has been written so far."""
        senders = (
            SenderEnd(process=PROCESS, topic=TOPIC, partition=partition, white_end=end, last_seq=end - 1)
            for partition, end in self.ends.items()
        )
        changelogs = (
            ChangelogCut(
                app="shop",
                table="stock",
                topic=TOPIC,
                topic_id="",
                partition=partition,
                end=end,
                process=PROCESS,
            )
            for partition, end in self.ends.items()
        )
        return Captured(
            id=name,
            attempt=1,
            epoch=epoch,
            type=type_,
            parent="parent" if type_ == "incremental" else "",
            storage="",
            processes=(ProcessCut(process=PROCESS, app="shop"),),
            inputs=(),
            senders=tuple(senders),
            changelogs=tuple(changelogs),
        )

    def assemble(self, captured: Captured) -> tuple[Manifest, float]:
        """The snapshot, and how many seconds it took."""
        bounds = {
            TopicPartition(TOPIC, partition): LogBounds(start=0, end=end)
            for partition, end in self.ends.items()
        }
        settings = settings_of(LEDGER, bootstrap=self.bootstrap, isolation=ISOLATION, namespace="bench")
        began = time.monotonic()
        base = find_base(self.store, captured, LEDGER, isolation=ISOLATION)
        view = CutView(captured, bounds)
        manifest = assemble_by_spark(self.spark, view, settings, self.store, base=base)
        seconds = time.monotonic() - began
        assert manifest.verdict == "VERIFIED", manifest.checks
        return manifest, seconds

    def size(self, manifest: Manifest) -> int:
        """All that was written, in bytes."""
        files = sum(file.bytes for table in manifest.tables for file in table.files)
        return files + self.store.manifest_path(manifest.id).stat().st_size

    def require_same(self, full: Manifest, incremental: Manifest) -> None:
        """Both have the same rows of state."""
        rows = [
            duckdb.sql(
                "SELECT count(*), bit_xor(hash(partition, key_raw, value_raw, changelog_offset)) FROM "
                f"({state_sql(self.store, state_parts(self.store, manifest))})"
            ).fetchall()
            for manifest in (full, incremental)
        ]
        assert rows[0] == rows[1], f"full and incremental differ: {rows}"

    def forget(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            self.store.manifest_path(manifest.id).unlink()
            shutil.rmtree(self.store.root / manifest.id)
