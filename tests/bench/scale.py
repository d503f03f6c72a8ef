"""How assembly grows: next to a bare count of the same records, with twice the records, and in memory.

`BENCH_RECORDS` says how many records of a changelog there are (20 million of 200 bytes, one in four with a key of its
own). Each measurement is a process of its own, as its peak of memory belongs to it; what it starts with is not counted.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly import session
from snapkafka.assembly.spark.kafka_source import bare_source
from snapkafka.checks import CutView, LogBounds, ReadRange
from snapkafka.manifest import LedgerEntry, Manifest
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, ProcessCut, SenderEnd
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.wire import headers as wire
from tests.bench.figures import Figure, figure
from tests.spark.at_hand import settings_of
from tests.spark.engines import Engine
from tests.worlds.little_log import CAPTURED
from tests.worlds.stores import LocalStore

RECORDS: Final = int(os.environ.get("BENCH_RECORDS", "20000000"))
#: Records for each key.
WRITES: Final = 4
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "3"))
#: Read before anything is measured: the JVM compiles what runs often.
WARM: Final = 400_000
PAD: Final = 48
PARTITIONS: Final = 4
TOPIC: Final = "stock-changelog"
LEDGER: Final = LedgerEntry(topic="_snapkafka.bench", topic_id="5a" * 16)
PROCESS: Final = 1
ISOLATION: Final = "read_committed"


def bench_assembly() -> list[Figure]:
    """Records per second of a full assembly by those of a bare count; time and memory at twice the records."""
    ratios, growth, memory, full_s = [], [], [], []
    with EmbeddedKafka() as broker:
        create_topics(broker.bootstrap, TOPIC, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
        shop = Shop(broker.bootstrap)
        keys = RECORDS // WRITES
        for half in range(2):  # the second half of the log has keys of its own
            for _ in range(WRITES):
                shop.write(range(half * keys, (half + 1) * keys))
        for _ in range(ROUNDS):
            once, twice = _measured(broker.bootstrap, RECORDS), _measured(broker.bootstrap, 2 * RECORDS)
            ratios += [found["bare_s"] / found["full_s"] for found in (once, twice)]
            growth.append(twice["full_s"] / once["full_s"])
            memory.append(twice["peak_bytes"] / once["peak_bytes"])
            full_s.append(once["full_s"])
    return [
        figure("assembly_ratio", ratios, "ratio", bar=0.4, at_most=False),
        figure("assembly_growth_2x", growth, "ratio", bar=2.2),
        figure("assembly_memory_ratio", memory, "ratio", bar=1.1),
        figure("assembly_s", full_s, "s"),
    ]


class Shop:
    """One process that writes a table, and snapshots of it; nothing else, for the state is what grows."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        settings = {"enable.idempotence": True, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
        self._producer = Producer({"bootstrap.servers": bootstrap} | settings)

    def write(self, keys: Iterable[int]) -> None:
        """A new value of about 150 bytes for each of these keys."""
        more = b"." * PAD
        mark = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
        checks = [wire.tp_check(TOPIC, partition) for partition in range(PARTITIONS)]
        produce, poll = self._producer.produce, self._producer.poll
        for n, key in enumerate(keys):
            partition = key % PARTITIONS
            seq = self.ends[partition]
            header = wire.stamp(mark, checks[partition], 0, PROCESS, seq)
            fields = key, more, seq % 1000, key * 7919
            value = b'{"name": "item %d%s", "left": %d, "where": "%040x"}' % fields
            produce(TOPIC, value, b'"%d"' % key, partition, headers=[(wire.HEADER, header)])
            self.ends[partition] = seq + 1
            if n % 10_000 == 0:
                while len(self._producer) > 400_000:
                    poll(0.1)
                poll(0)
        assert self._producer.flush(120) == 0, "the broker did not take all records"

    def captured(self, name: str) -> Captured:
        """A snapshot of what has been written so far."""
        senders = (
            SenderEnd(process=PROCESS, topic=TOPIC, partition=partition, white_end=end, last_seq=end - 1)
            for partition, end in self.ends.items()
        )
        of: dict[str, Any] = {
            "app": "shop",
            "table": "stock",
            "topic": TOPIC,
            "topic_id": "",
            "process": PROCESS,
        }
        changelogs = (
            ChangelogCut(**of, partition=partition, end=end) for partition, end in self.ends.items()
        )
        return replace(
            CAPTURED,
            id=name,
            processes=(ProcessCut(process=PROCESS, app="shop"),),
            inputs=(),
            senders=tuple(senders),
            changelogs=tuple(changelogs),
            recorded=(),
        )

    def assemble(self, captured: Captured, store: LocalStore, spark: SparkSession) -> tuple[Manifest, float]:
        """The snapshot, and how many seconds it took."""
        bounds = {TopicPartition(TOPIC, n): LogBounds(start=0, end=end) for n, end in self.ends.items()}
        settings = settings_of(LEDGER, bootstrap=self.bootstrap, isolation=ISOLATION, namespace="bench")
        began = time.monotonic()
        manifest = Engine("spark", spark).assembled(CutView(captured, bounds), settings, store)
        seconds = time.monotonic() - began
        assert manifest.verdict == "VERIFIED", manifest.checks
        return manifest, seconds


def _measured(bootstrap: str, records: int) -> dict[str, float]:
    command = [sys.executable, "-m", __name__, bootstrap, str(records)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"    {records:,}: {found}", file=sys.stderr)
    return found


def _measure(bootstrap: str, records: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        shop, store = Shop(bootstrap), LocalStore(Path(folder))
        shop.ends = dict.fromkeys(range(PARTITIONS), WARM // PARTITIONS)
        shop.assemble(shop.captured("warm"), store, spark)
        _count(spark, shop)
        shop.ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
        bare_s = _count(spark, shop)
        manifest, full_s = shop.assemble(shop.captured("full"), store, spark)
        (state,) = (table for table in manifest.tables if table.name == "state")
        assert state.rows == records // WRITES, f"{state.rows:,} keys"
        return {"bare_s": bare_s, "full_s": full_s, "peak_bytes": _peak_of_java()}


def _count(spark: SparkSession, shop: Shop) -> float:
    """Seconds of Spark's own count of the records that an assembly reads."""
    ranges = [ReadRange(TOPIC, partition, 0, end) for partition, end in shop.ends.items()]
    began = time.monotonic()
    client = {"bootstrap.servers": shop.bootstrap, "isolation.level": ISOLATION}
    found = bare_source(spark, ranges, client).load().count()
    seconds = time.monotonic() - began
    assert found == sum(shop.ends.values()), found
    return seconds


def _peak_of_java() -> int:
    """The most memory that the JVM has had at any time, in bytes."""
    (java,) = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True, check=True
    ).stdout.split()
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{java}/status").read_text())
    return int(kilobytes) * 1024


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
