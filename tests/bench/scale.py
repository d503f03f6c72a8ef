"""How assembly grows: next to a bare count of the same records, with twice the records, and in memory.

`BENCH_RECORDS` says how many records of a changelog there are (20 million of 200 bytes, one in four with a key of its
own). Each measurement is a process of its own, as its peak of memory belongs to it; what it starts with is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from snapkafka.assembly import session
from snapkafka.assembly.spark.reading.kafka_source import bare_source
from snapkafka.checks import ReadRange
from snapkafka.store import LocalStore
from snapkafka.testing import EmbeddedKafka, create_topics
from tests.bench.building import PARTITIONS, TOPIC, Shop
from tests.bench.figures import Figure, figure

RECORDS: Final = int(os.environ.get("BENCH_RECORDS", "20000000"))
#: Records for each key.
WRITES: Final = 4
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "3"))
#: Read before anything is measured: the JVM compiles what runs often.
WARM: Final = 400_000
PAD: Final = 48


def bench_assembly() -> list[Figure]:
    """Records per second of a full assembly by those of a bare count; time and memory at twice the records."""
    ratios, growth, memory, full_s = [], [], [], []
    with EmbeddedKafka() as broker:
        create_topics(broker.bootstrap, TOPIC, partitions=PARTITIONS, config={"cleanup.policy": "compact"})
        shop = Shop(broker.bootstrap)
        keys = RECORDS // WRITES
        for half in range(2):  # the second half of the log has keys of its own
            for _ in range(WRITES):
                shop.write(range(half * keys, (half + 1) * keys), epoch=0, pad=PAD)
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


def _measured(bootstrap: str, records: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", __name__, bootstrap, str(records)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"    {records:,}: {found}", file=sys.stderr)
    return found


def _measure(bootstrap: str, records: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, session(offsets=records) as spark:
        shop = Shop(bootstrap, LocalStore(Path(folder)), spark)
        shop.ends = dict.fromkeys(range(PARTITIONS), WARM // PARTITIONS)
        shop.assemble(shop.captured("warm", epoch=10))
        _count(spark, shop)
        shop.ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
        bare_s = _count(spark, shop)
        manifest, full_s = shop.assemble(shop.captured("full", epoch=10))
        print(manifest.times.seconds, file=sys.stderr)
        (state,) = (table for table in manifest.tables if table.name == "state")
        assert state.rows == records // WRITES, f"{state.rows:,} keys"
        return {"bare_s": bare_s, "full_s": full_s, "peak_bytes": _peak_of_java()}


def _count(spark: SparkSession, shop: Shop) -> float:
    """Seconds of Spark's own count of the records that an assembly reads."""
    ranges = [ReadRange(TOPIC, partition, 0, end) for partition, end in shop.ends.items()]
    began = time.monotonic()
    found = bare_source(spark, ranges, bootstrap=shop.bootstrap, isolation="read_committed").load().count()
    seconds = time.monotonic() - began
    assert found == sum(shop.ends.values()), found
    return seconds


def _peak_of_java() -> int:
    """The most memory that the JVM has had at any time, in bytes."""
    (java,) = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True, check=True
    ).stdout.split()
    (line,) = (
        line for line in Path(f"/proc/{java}/status").read_text().splitlines() if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
