"""Aligned and ordinary snapshots of two apps in a row, in turn: without a backlog, and with one.

A backlog is a burst of records just before a snapshot: more than a second of work for each worker of the second app.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from snapkafka.demo import wait_until
from snapkafka.ops import Details
from snapkafka.testing import EmbeddedKafka
from tests.bench.figures import Figure, figure
from tests.driver.aligned_system import PARTITIONS, Load, Two, in_flight, two

#: The second app takes so long for a record, and each of its two workers has this share of the load: a third of a core.
SLOW_S, RATE = 0.004, 150
BURST: Final = 600
PAIRS: Final = 12


def bench_align() -> list[Figure]:
    """How long an aligned and an ordinary snapshot take, and what is in flight."""
    found: dict[tuple[str, bool], list[Details]] = defaultdict(list)
    with (
        EmbeddedKafka() as broker,
        tempfile.TemporaryDirectory() as folder,
        two(broker.bootstrap, "bench-align", Path(folder), slow_s=SLOW_S) as apps,
        Load(broker.bootstrap, f"{apps.id}-in", rate=RATE) as load,
    ):
        for number in range(PAIRS):
            for load_name, burst in ("light", 0), ("backlog", BURST):
                for align in (False, True):
                    load.burst = burst
                    name = f"{load_name}-{number}-{align}"
                    found[load_name, align].append(_taken(apps, name, align=align))
    figures = []
    for (load_name, align), snapshots in found.items():
        name = f"align_{load_name}_{'aligned' if align else 'ordinary'}"
        figures.append(
            figure(f"{name}_capture_ms", [float(each.summary.capture_ms or 0) for each in snapshots], "ms")
        )
        figures.append(figure(f"{name}_in_flight", [float(_in_flight(each)) for each in snapshots], ""))
    return figures


def _taken(apps: Two, name: str, *, align: bool) -> Details:
    """Take a snapshot, see that it is of the kind that was asked for, and wait for an end of the backlog."""
    found = apps.snapshot(name, align=align)
    assert found.captured is not None
    done = found.captured.alignment
    assert (done is not None and done.aligned) if align else done is None, f"{name}: {done}"
    wait_until("the backlog to end", lambda: _lag(apps) < RATE, timeout_s=60, system=apps.system)
    return found


def _lag(apps: Two) -> int:
    """Count the records that the second app has yet to process, as its group has committed."""
    consumer = Consumer({"bootstrap.servers": apps.system.bootstrap, "group.id": f"{apps.id}-back"})
    try:
        places = [TopicPartition(f"{apps.id}-middle", number) for number in range(PARTITIONS)]
        committed = consumer.committed(places, timeout=10)
        return sum(consumer.get_watermark_offsets(at, timeout=10)[1] - max(0, at.offset) for at in committed)
    finally:
        consumer.close()


def _in_flight(found: Details) -> int:
    assert found.captured is not None
    return in_flight(found.captured)
