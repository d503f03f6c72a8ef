"""What alignment costs (R16): two services in a row, two workers each, light and with a backlog between them.

Turns with an aligned snapshot and with an ordinary one alternate. Throughput is what the second service has counted in
a turn, by the growth of its changelog.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from snapkafka.demo.system import wait_until
from snapkafka.testing import kafka
from tests.bench.figures import Figure, figure
from tests.driver.aligned_system import PARTITIONS, Load, Two, in_flight, two

PAIRS: Final = 8
TURN_S: Final = 4.0
#: Records a second; a record of the second service takes so long; so many wait for it.
LIGHT: Final = (100, 0.0, 0)
BACKLOG: Final = (250, 0.004, 600)


class Turn(NamedTuple):
    capture_ms: float
    held_ms: float
    per_s: float
    in_flight: int


def bench_aligned() -> list[Figure]:
    """Capture time, alignment duration and throughput, aligned and not, light and under a backlog."""
    found: list[Figure] = []
    with kafka() as broker:
        for name, (rate, slow_s, waiting) in (("light", LIGHT), ("backlog", BACKLOG)):
            with (
                tempfile.TemporaryDirectory() as folder,
                two(broker.bootstrap, f"bench-{uuid4().hex[:8]}", Path(folder), slow_s=slow_s) as apps,
                Load(broker.bootstrap, f"{apps.id}-in", rate=rate) as load,
            ):
                turns = _turns(apps, load, waiting)
            found += _figures(name, turns)
    return found


def _turns(apps: Two, load: Load, waiting: int) -> dict[bool, list[Turn]]:
    turns: dict[bool, list[Turn]] = {True: [], False: []}
    for number in range(2 * PAIRS):
        align = (number + number // 2) % 2 == 0
        load.burst(waiting)
        wait_until("the burst to be sent", lambda: load.waiting == 0, timeout_s=10)
        sent = load.passed
        wait_until("it to be passed on", lambda: _counted(apps, "front") >= sent, timeout_s=60)  # noqa: B023
        before, start = _counted(apps, "back"), time.perf_counter()
        details = apps.snapshot(f"{'aligned' if align else 'ordinary'}-{number}", align=align)
        time.sleep(max(0.0, TURN_S - (time.perf_counter() - start)))
        per_s = (_counted(apps, "back") - before) / (time.perf_counter() - start)
        details = apps.show(details.summary.id)  # what was held is known once it goes on
        assert details.captured is not None
        assert not align or (details.captured.alignment and details.captured.alignment.aligned)
        held = max((row.held_us for row in details.held), default=0) / 1_000
        turns[align].append(
            Turn(float(details.summary.capture_ms or 0), held, per_s, in_flight(details.captured))
        )
    return turns


def _counted(apps: Two, role: str) -> int:
    """Return how many records a service has counted."""
    consumer = Consumer({"bootstrap.servers": apps.system.bootstrap, "group.id": "bench-aligned"})
    try:
        ends = (
            consumer.get_watermark_offsets(
                TopicPartition(f"{apps.id}-{role}-counts-changelog", partition), 10
            )[1]
            for partition in range(PARTITIONS)
        )
        return sum(ends)
    finally:
        consumer.close()


def _figures(name: str, turns: dict[bool, list[Turn]]) -> list[Figure]:
    aligned, ordinary = turns[True], turns[False]
    ratios = [a.per_s / o.per_s for a, o in zip(aligned, ordinary, strict=True)]
    return [
        figure(f"aligned_{name}_capture_ms", [turn.capture_ms for turn in aligned], "ms"),
        figure(f"ordinary_{name}_capture_ms", [turn.capture_ms for turn in ordinary], "ms"),
        figure(f"aligned_{name}_held_ms", [turn.held_ms for turn in aligned], "ms"),
        figure(f"aligned_{name}_throughput_ratio", ratios, "ratio"),
        figure(f"ordinary_{name}_in_flight", [float(turn.in_flight) for turn in ordinary], "messages"),
    ]
